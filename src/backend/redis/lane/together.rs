//! Calls that are made together: one script runs them all, which costs the server less than one
//! for each.

use std::{mem, ptr};

use redis::Value;

use super::resp;
use crate::backend::redis::error;
use crate::backend::redis::format::scripts::{ACQUIRE, Call, RELEASE, Script, TOGETHER};
use crate::error::Result;

/// The server does nothing else while it runs a script.
const MOST: usize = 16;

/// Calls that are not yet written.
#[derive(Default)]
pub(super) struct Together {
    calls: usize,
    /// Of the first.
    script: Option<&'static Script>,
    keys: Values,
    /// Before those of each call stands how many keys it has.
    args: Values,
    /// How many bytes of the arguments that takes for the first.
    start: usize,
}

/// In the form in which they are sent.
#[derive(Default)]
struct Values {
    count: usize,
    bytes: Vec<u8>,
}

impl Values {
    fn add(&mut self, value: &str) {
        self.count += 1;
        resp::write_text(&mut self.bytes, value);
    }

    fn clear(&mut self) {
        self.count = 0;
        self.bytes.clear();
    }
}

impl Together {
    /// Whether a call can be one of several.
    pub(super) fn takes(call: &Call<'_>) -> bool {
        ptr::eq(call.script, &*ACQUIRE) || ptr::eq(call.script, &*RELEASE)
    }

    /// One that it [`takes`](Self::takes).
    pub(super) fn add(&mut self, call: &Call<'_>) {
        self.args.count += 1;
        resp::write_number(&mut self.args.bytes, call.keys.len());
        if self.calls == 0 {
            self.script = Some(call.script);
            self.start = self.args.bytes.len();
        }
        self.calls += 1;
        call.keys.iter().for_each(|key| self.keys.add(key));
        call.args.lean.iter().for_each(|arg| self.args.add(arg));
    }

    pub(super) fn is_full(&self) -> bool {
        self.calls >= MOST
    }

    /// Appends them to `out`. How many they were.
    pub(super) fn write(
        &mut self,
        out: &mut Vec<u8>,
        is_known: impl FnOnce(&'static Script) -> bool,
    ) -> usize {
        let calls = mem::take(&mut self.calls);
        let (script, args, bytes) = match (calls, self.script.take()) {
            (0, _) | (_, None) => return 0,
            (1, Some(alone)) => (alone, self.args.count - 1, &self.args.bytes[self.start..]),
            _ => (&*TOGETHER, self.args.count, &self.args.bytes[..]),
        };
        resp::write_start(out, script, is_known(script), self.keys.count, args);
        out.extend_from_slice(&self.keys.bytes);
        out.extend_from_slice(bytes);
        self.keys.clear();
        self.args.clear();
        calls
    }
}

/// The answer to each of so many calls; nothing when they were refused as a whole, for what may be
/// wrong with one of them only.
pub(super) fn answers(calls: usize, answer: Value) -> Result<Vec<Option<Value>>> {
    match answer {
        Value::Array(answers) if answers.len() == calls => {
            Ok(answers.into_iter().map(Some).collect())
        }
        Value::ServerError(_) => Ok(vec![None; calls]),
        _ => Err(error::not_redis()),
    }
}
