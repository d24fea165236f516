//! Replies as JavaScript reads them: a tag, then fields of fixed width, then the rest.

use serde_json::{Value, json};

use crate::backend::report::Finding;
use crate::backend::{LockRecord, Miss, Page, ReleaseOutcome};
use crate::client::host::Moment;
use crate::client::{Extension, Grant, Hold};
use crate::error::{Cause, Error, Result};
use crate::lock::{Fence, LockId};

/// A reply on its way.
pub(super) struct Reply {
    text: String,
    /// What to do when nobody takes it: a lock that nobody heard of is nobody's.
    unclaimed: Option<Box<dyn FnOnce() + Send>>,
    /// What JavaScript threw must be there until it is told of it.
    _error: Option<Error>,
}

impl Reply {
    /// An answer to nobody: the operation is over.
    pub fn nothing() -> Self {
        "Z".to_owned().into()
    }

    /// Not the last one: the caller is answered, work goes on.
    pub fn interim(mut self) -> Self {
        self.text.insert(0, '~');
        self
    }

    pub fn or_else(mut self, unclaimed: impl FnOnce() + Send + 'static) -> Self {
        self.unclaimed = Some(Box::new(unclaimed));
        self
    }

    /// For JavaScript, which has it then.
    pub fn deliver(mut self) -> String {
        self.unclaimed = None;
        std::mem::take(&mut self.text)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(unclaimed) = self.unclaimed.take() {
            unclaimed();
        }
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self {
            text,
            unclaimed: None,
            _error: None,
        }
    }
}

impl From<Error> for Reply {
    fn from(reason: Error) -> Self {
        Self {
            text: error(&reason),
            unclaimed: None,
            _error: Some(reason),
        }
    }
}

/// Not while a loss is unknown.
pub(super) fn unsure() -> String {
    "!".to_owned()
}

/// Another reply, to go along with this one.
pub(super) fn append(text: &mut String, id: u64, reply: Reply) {
    push_number(text, id);
    text.push(',');
    text.push_str(&reply.deliver());
}

pub(super) fn locked() -> String {
    "L".to_owned()
}

pub(super) fn acquired(grant: &Grant) -> String {
    let mut text = String::with_capacity(80);
    push_lock(&mut text, grant.lock_id, grant.fence, grant.expires_at_ms);
    push_number(&mut text, milliseconds(grant.valid_until));
    text
}

/// `number` is that of the hold.
pub(super) fn held(hold: &Hold, number: u64) -> String {
    let mut text = String::with_capacity(96);
    push_lock(&mut text, hold.lock_id, hold.fence, hold.expires_at_ms());
    push_number(&mut text, number);
    text.push(',');
    push_number(&mut text, hold.progress.attempts);
    text.push(',');
    push_number(&mut text, hold.waited.as_millis());
    text
}

const FENCE_ZEROS: &str = "000000000000000";

// Not by `write!`: it took a tenth of an operation in memory.
fn push_lock(text: &mut String, lock_id: LockId, fence: Fence, expires_at_ms: u64) {
    text.push('A');
    text.push_str(lock_id.as_str());
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(fence.value());
    text.push_str(FENCE_ZEROS.get(digits.len()..).unwrap_or_default());
    text.push_str(digits);
    push_number(text, expires_at_ms);
    text.push(',');
}

fn push_number(text: &mut String, number: impl itoa::Integer) {
    text.push_str(itoa::Buffer::new().format(number));
}

/// Of a host's clock, as JavaScript compares them.
pub(super) fn milliseconds(moment: Moment) -> u64 {
    u64::try_from(moment.since_start().as_millis()).unwrap_or(u64::MAX)
}

/// Of a release that found its lock.
pub(super) const DONE: &str = "1";

pub(super) fn released(outcome: ReleaseOutcome) -> String {
    match outcome {
        ReleaseOutcome::Released => DONE.to_owned(),
        ReleaseOutcome::Missed(miss) => missed(miss),
    }
}

pub(super) fn extended(outcome: Result<Extension, Miss>) -> String {
    match outcome {
        Ok(Extension {
            expires_at_ms,
            valid_until,
        }) => format!("1{expires_at_ms},{}", milliseconds(valid_until)),
        Err(miss) => missed(miss),
    }
}

fn missed(miss: Miss) -> String {
    match miss {
        Miss::NotFound => "0".to_owned(),
        Miss::Expired => "2".to_owned(),
    }
}

pub(super) fn boolean(value: bool) -> String {
    if value { "1" } else { "0" }.to_owned()
}

pub(super) fn found(record: Option<LockRecord>) -> String {
    match record {
        None => "0".to_owned(),
        Some(record) => format!(
            "I{}{}{},{},{}",
            record.lock_id.as_str(),
            record.fence,
            record.expires_at_ms,
            record.acquired_at_ms,
            record.key
        ),
    }
}

pub(super) fn page(page: Page) -> String {
    let locks: Vec<Value> = page
        .locks
        .into_iter()
        .map(|record| {
            json!({
                "key": record.key,
                "lockId": record.lock_id.as_str(),
                "fence": record.fence.to_string(),
                "expiresAtMs": record.expires_at_ms,
                "acquiredAtMs": record.acquired_at_ms,
            })
        })
        .collect();
    format!("1{}", json!({ "locks": locks, "next": page.next }))
}

pub(super) fn report(findings: Vec<Finding>) -> String {
    format!("1{}", json!(findings))
}

pub(super) fn text(value: impl AsRef<str>) -> String {
    format!("1{}", value.as_ref())
}

pub(super) fn error(error: &Error) -> String {
    format!("E{}", describe(error))
}

fn describe(error: &Error) -> Value {
    let details: serde_json::Map<_, _> = error
        .details
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    let mut body = json!({
        "code": error.code,
        "message": error.message,
        "details": details,
    });
    match &error.cause {
        None => {}
        Some(Cause::Text(text)) => body["cause"] = json!(text),
        Some(Cause::Error(cause)) => body["cause"] = describe(cause),
        Some(Cause::Thrown(thrown)) => body["thrown"] = json!(thrown.number()),
    }
    body
}

/// The reply to a result, whatever it is.
pub(super) fn of<T>(result: Result<T>, ok: impl FnOnce(T) -> String) -> Reply {
    match result {
        Ok(value) => ok(value).into(),
        Err(reason) => reason.into(),
    }
}

/// The same, where JavaScript does not wait.
pub(super) fn now<T>(result: Result<T>, ok: impl FnOnce(T) -> String) -> String {
    of(result, ok).deliver()
}
