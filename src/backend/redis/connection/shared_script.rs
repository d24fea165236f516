//! Lets requests that are written together share a script: one call runs them all, which costs the
//! server less than a call for each.

use std::{mem, ptr};

use redis::Value;

use super::resp;
use crate::backend::redis::error;
use crate::backend::redis::format::scripts::{ACQUIRE, Call, RELEASE, SHARE, Script, TOGETHER};
use crate::error::Result;

/// The limit of requests that share a script. The server does nothing else while it runs one.
const MAX_SHARED: usize = 16;

/// Requests that are not yet written.
#[derive(Default)]
pub(super) struct SharedScript {
    calls: usize,
    /// The script of the first call.
    script: Option<&'static Script>,
    keys: Values,
    /// The arguments of each call follow the number of its keys, or the name of [`SHARE`].
    args: Values,
    /// The number of bytes in `args` that precede the arguments of the first call.
    start: usize,
}

/// Values in the form in which they are sent.
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

impl SharedScript {
    /// Returns whether a call can share a script with others.
    pub(super) fn takes(call: &Call<'_>) -> bool {
        let scripts = [&*ACQUIRE, &*RELEASE, &*SHARE];
        scripts.iter().any(|script| ptr::eq(call.script, *script))
    }

    /// Adds a call that it [`takes`](Self::takes).
    pub(super) fn add(&mut self, call: &Call<'_>) {
        if ptr::eq(call.script, &*SHARE) {
            self.args.add(SHARE.name);
        } else {
            self.args.count += 1;
            resp::write_number(&mut self.args.bytes, call.keys.len());
        }
        if self.calls == 0 {
            self.script = Some(call.script);
            self.start = self.args.bytes.len();
        }
        self.calls += 1;
        call.keys.iter().for_each(|key| self.keys.add(key));
        call.args.iter().for_each(|arg| self.args.add(arg));
    }

    pub(super) fn is_full(&self) -> bool {
        self.calls >= MAX_SHARED
    }

    /// Appends the calls to `out`. Returns how many they were.
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

/// Returns the answer to each of the calls. All are None if the server refused the script, which may be
/// due to only one call.
pub(super) fn answers(calls: usize, answer: Value) -> Result<Vec<Option<Value>>> {
    match answer {
        Value::Array(answers) if answers.len() == calls => {
            Ok(answers.into_iter().map(Some).collect())
        }
        Value::ServerError(_) => Ok(vec![None; calls]),
        _ => Err(error::not_redis()),
    }
}
