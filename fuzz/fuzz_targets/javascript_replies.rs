//! Replies as Rust writes them, read by the JavaScript of the library: `replies.mjs` in a Node.js
//! beside this.
#![no_main]

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use syncguard::backend::report::{Finding, Verdict};
use syncguard::backend::{LockRecord, Miss, Page};
use syncguard::client::host::Moment;
use syncguard::client::{Extension, Grant};
use syncguard::error::{Cause, Error, ErrorCode};
use syncguard::lock::fence::FENCE_MAX;
use syncguard::lock::{Fence, HolderLabel, LockId, Share};
use syncguard::node::fuzzing as reply;

thread_local! {
    static READER: RefCell<Reader> = RefCell::new(Reader::start());
}

fuzz_target!(|data: &[u8]| {
    // What is too short for a whole thing goes on with zeros.
    if let Ok((kind, reply, expected)) = make(&mut Unstructured::new(data)) {
        let read = READER.with_borrow_mut(|reader| reader.read(kind, &reply));
        assert_eq!(
            in_javascript(read),
            in_javascript(expected),
            "{kind}: {reply:?}"
        );
    }
});

/// Which of the readers it is for, the reply, and what should be read.
fn make(input: &mut Unstructured<'_>) -> Result<(&'static str, String, Value)> {
    Ok(match input.int_in_range(0..=5)? {
        0 => {
            let grant = Grant {
                lock_id: lock_id(input)?,
                fence: fence(input)?,
                expires_at_ms: input.arbitrary()?,
                share: share(input)?,
                granted_at: moment(input)?,
                answered_at: moment(input)?,
                valid_until: moment(input)?,
            };
            let mut expected = json!({
                "lockId": grant.lock_id.as_str(),
                "fence": grant.fence.to_string(),
                "expiresAtMs": grant.expires_at_ms,
                "rest": milliseconds(grant.valid_until).to_string(),
            });
            if let Some(share) = grant.share {
                expected["slot"] = json!(share.slot);
            }
            ("grant", reply::acquired(&grant), expected)
        }
        1 => {
            let outcome = match input.int_in_range(0..=2)? {
                0 => Err(Miss::Expired),
                1 => Err(Miss::NotFound),
                _ => Ok(Extension {
                    expires_at_ms: input.arbitrary()?,
                    valid_until: moment(input)?,
                }),
            };
            let expected = match outcome {
                Err(Miss::Expired) => json!({ "ok": false, "reason": "expired" }),
                Err(Miss::NotFound) => json!({ "ok": false, "reason": "not-found" }),
                Ok(extension) => json!({
                    "ok": true,
                    "expiresAtMs": extension.expires_at_ms,
                    "validUntil": milliseconds(extension.valid_until),
                }),
            };
            ("extended", reply::extended(outcome), expected)
        }
        2 => {
            let record = record(input)?;
            (
                "info",
                reply::found(Some(record.clone())),
                read_found(&record),
            )
        }
        3 => {
            let count = input.int_in_range(0..=3)?;
            let locks: Vec<_> = (0..count).map(|_| record(input)).collect::<Result<_>>()?;
            let next: Option<String> = input.arbitrary()?;
            let expected = json!({
                "locks": locks.iter().map(read_record).collect::<Vec<_>>(),
                "next": next,
            });
            ("json", reply::page(Page { locks, next }), expected)
        }
        4 => {
            let finding = Finding {
                name: "server",
                value: input.arbitrary()?,
                verdict: *input.choose(&[Verdict::Ok, Verdict::Warning, Verdict::Error])?,
                advice: input.arbitrary()?,
            };
            let expected = json!([finding]);
            ("json", reply::report(vec![finding]), expected)
        }
        _ => {
            let error = error(input, 3)?;
            ("error", reply::error(&error), read_error(&error))
        }
    })
}

fn record(input: &mut Unstructured<'_>) -> Result<LockRecord> {
    Ok(LockRecord {
        key: input.arbitrary()?,
        lock_id: lock_id(input)?,
        fence: fence(input)?,
        expires_at_ms: input.arbitrary()?,
        acquired_at_ms: input.arbitrary()?,
        label: HolderLabel::from_stored(input.arbitrary()?),
        share: share(input)?,
    })
}

fn read_record(record: &LockRecord) -> Value {
    let mut read = json!({
        "lockId": record.lock_id.as_str(),
        "fence": record.fence.to_string(),
        "expiresAtMs": record.expires_at_ms,
        "acquiredAtMs": record.acquired_at_ms,
        "key": record.key,
    });
    if let Some(share) = record.share {
        read["slot"] = json!(share.slot);
    }
    if let Some(label) = &record.label {
        read["holderLabel"] = json!(label.as_str());
    }
    read
}

fn read_found(record: &LockRecord) -> Value {
    let mut read = read_record(record);
    if let Some(share) = record.share {
        read["mode"] = json!("shared");
        read["holders"] = json!(share.holders);
    }
    read
}

fn share(input: &mut Unstructured<'_>) -> Result<Option<Share>> {
    let share = Share {
        slot: input.arbitrary()?,
        holders: input.arbitrary()?,
    };
    Ok(input.ratio(1, 2)?.then_some(share))
}

fn error(input: &mut Unstructured<'_>, depth: usize) -> Result<Error> {
    let code = *input.choose(&[
        ErrorCode::ServiceUnavailable,
        ErrorCode::InvalidArgument,
        ErrorCode::Internal,
        ErrorCode::LockLost,
    ])?;
    let message: String = input.arbitrary()?;
    let error = Error::new(code, message);
    Ok(match input.int_in_range(0..=3)? {
        0 => error,
        1 => error.cause(String::arbitrary(input)?),
        2 => error.detail("sqlstate", String::arbitrary(input)?),
        _ if depth > 0 => error.because_of(self::error(input, depth - 1)?),
        _ => error,
    })
}

fn read_error(error: &Error) -> Value {
    let mut read = json!({ "code": error.code, "message": error.message });
    match &error.cause {
        Some(Cause::Text(text)) => read["cause"] = json!({ "message": text }),
        Some(Cause::Error(cause)) => read["cause"] = read_error(cause),
        _ => {}
    }
    for (name, value) in &error.details {
        read[name] = value.clone();
    }
    read
}

fn lock_id(input: &mut Unstructured<'_>) -> Result<LockId> {
    let zeros = LockId::parse("AAAAAAAAAAAAAAAAAAAAAA").unwrap();
    Ok(zeros.with_spare_bits(input.arbitrary::<u8>()?.into()))
}

fn fence(input: &mut Unstructured<'_>) -> Result<Fence> {
    Ok(Fence::from_stored(input.int_in_range(0..=FENCE_MAX)?).unwrap())
}

fn moment(input: &mut Unstructured<'_>) -> Result<Moment> {
    Ok(Moment::after_start(Duration::from_nanos(
        input.arbitrary()?,
    )))
}

fn milliseconds(moment: Moment) -> u64 {
    moment.since_start().as_millis() as u64
}

/// Where of very large numbers only the nearest is known.
fn in_javascript(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(values) => values.into_iter().map(in_javascript).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, in_javascript(value)))
            .collect(),
        value => value,
    }
}

struct Reader {
    _node: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Reader {
    fn start() -> Self {
        let mut node = Command::new("node")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/replies.mjs"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Node.js");
        Self {
            to: node.stdin.take().unwrap(),
            from: BufReader::new(node.stdout.take().unwrap()),
            _node: node,
        }
    }

    fn read(&mut self, kind: &str, reply: &str) -> Value {
        writeln!(self.to, "{}", json!([kind, reply])).unwrap();
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("Node.js answered {line:?}"))
    }
}
