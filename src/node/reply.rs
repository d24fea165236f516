//! Replies as JavaScript reads them: a tag, fields of fixed width, and the rest.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::backend::report::Finding;
use crate::backend::{LockRecord, Miss, Page, ReleaseOutcome};
use crate::client::host::Moment;
use crate::client::{Extension, Grant, Hold};
use crate::error::{Cause, Error, Result};
use crate::lock::{Fence, HolderLabel, LockId, Share};

/// A reply on its way to JavaScript.
pub(super) struct Reply {
    text: String,
    unclaimed: Option<Unclaimed>,
    /// Keeps the value that JavaScript threw until the reply with it arrives there.
    _error: Option<Error>,
}

/// A lock that JavaScript has not confirmed yet. It is released when this is dropped.
pub(super) struct Unclaimed(Option<Box<dyn FnOnce() + Send>>);

impl Unclaimed {
    fn new(release: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(release)))
    }

    /// Keeps the lock, because JavaScript has confirmed it.
    pub fn claim(mut self) {
        self.0 = None;
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release();
        }
    }
}

impl Reply {
    /// A reply without content: the operation is over.
    pub fn nothing() -> Self {
        "Z".to_owned().into()
    }

    /// Marks a reply that is followed by another one: the caller is answered while the operation continues.
    pub fn interim(mut self) -> Self {
        self.text.insert(0, '~');
        self
    }

    /// Calls `release` if JavaScript does not confirm the lock in this reply.
    pub fn or_else(mut self, release: impl FnOnce() + Send + 'static) -> Self {
        self.unclaimed = Some(Unclaimed::new(release));
        self
    }

    /// Returns the text for JavaScript, and the lock to keep until JavaScript has confirmed it: see
    /// [`Outbox`](super::outbox::Outbox).
    pub fn into_parts(self) -> (String, Option<Unclaimed>) {
        (self.text, self.unclaimed)
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

/// The reply to a release if the lock is no longer certainly held and JavaScript has not noticed.
/// JavaScript then reads the loss and asks again.
pub(super) fn unsure() -> String {
    "!".to_owned()
}

/// Appends another reply to this one.
pub(super) fn append(text: &mut String, id: u64, other: &str) {
    push_number(text, id);
    text.push(',');
    text.push_str(other);
}

pub(super) fn locked() -> String {
    "L".to_owned()
}

pub fn acquired(grant: &Grant) -> String {
    let mut text = String::with_capacity(80);
    let Grant {
        lock_id,
        fence,
        expires_at_ms,
        share,
        ..
    } = *grant;
    push_lock(&mut text, lock_id, fence, expires_at_ms, share);
    push_number(&mut text, milliseconds(grant.valid_until));
    text
}

/// The reply for a hold with this number.
pub(super) fn held(hold: &Hold, number: u64) -> String {
    let mut text = String::with_capacity(96);
    push_lock(
        &mut text,
        hold.lock_id,
        hold.fence,
        hold.expires_at_ms(),
        hold.share,
    );
    push_number(&mut text, number);
    text.push(',');
    push_number(&mut text, hold.progress.attempts);
    text.push(',');
    push_number(&mut text, hold.waited.as_millis());
    text
}

const FENCE_ZEROS: &str = "000000000000000";

/// Appends what the replies to all grants have in common. This does not use `write!`, which took a tenth of
/// the time of an operation on the memory backend.
fn push_lock(
    text: &mut String,
    lock_id: LockId,
    fence: Fence,
    expires_at_ms: u64,
    share: Option<Share>,
) {
    text.push(if share.is_some() { 'S' } else { 'A' });
    text.push_str(lock_id.as_str());
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(fence.value());
    text.push_str(FENCE_ZEROS.get(digits.len()..).unwrap_or_default());
    text.push_str(digits);
    push_number(text, expires_at_ms);
    text.push(',');
    if let Some(share) = share {
        push_number(text, share.slot);
        text.push(',');
    }
}

fn push_number(text: &mut String, number: impl itoa::Integer) {
    text.push_str(itoa::Buffer::new().format(number));
}

/// The reply for several holds with these numbers.
pub(super) fn held_several(holds: &[(u64, Arc<Hold>)]) -> String {
    let locks: Vec<_> = holds
        .iter()
        .map(|(number, hold)| {
            let mut lock = json!({
                "number": number,
                "key": hold.key.as_str(),
                "lockId": hold.lock_id.as_str(),
                "fence": hold.fence.to_string(),
                "expiresAtMs": hold.expires_at_ms(),
                "attempts": hold.progress.attempts,
                "waitMs": hold.waited.as_millis() as u64,
            });
            if let Some(share) = hold.share {
                lock["slot"] = json!(share.slot);
            }
            lock
        })
        .collect();
    format!("M{}", json!(locks))
}

/// Converts a moment of the host's clock to the number that JavaScript compares.
pub(super) fn milliseconds(moment: Moment) -> u64 {
    u64::try_from(moment.since_start().as_millis()).unwrap_or(u64::MAX)
}

/// The reply to a release that found its lock.
pub(super) const DONE: &str = "1";

pub(super) fn released(outcome: ReleaseOutcome) -> String {
    match outcome {
        ReleaseOutcome::Released => DONE.to_owned(),
        ReleaseOutcome::Missed(miss) => missed(miss),
    }
}

pub fn extended(outcome: Result<Extension, Miss>) -> String {
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

pub fn found(record: Option<LockRecord>) -> String {
    match record {
        None => "0".to_owned(),
        // A label has no line break, but a key may have some.
        Some(record) => format!(
            "I{}{}{},{},{},{}\n{}",
            record.lock_id.as_str(),
            record.fence,
            record.expires_at_ms,
            record.acquired_at_ms,
            record.share.map_or_else(String::new, |share| format!(
                "{}/{}",
                share.slot, share.holders
            )),
            record.label.as_ref().map_or("", HolderLabel::as_str),
            record.key
        ),
    }
}

pub fn page(page: Page) -> String {
    let locks: Vec<Value> = page
        .locks
        .into_iter()
        .map(|record| {
            let mut lock = json!({
                "key": record.key,
                "lockId": record.lock_id.as_str(),
                "fence": record.fence.to_string(),
                "expiresAtMs": record.expires_at_ms,
                "acquiredAtMs": record.acquired_at_ms,
            });
            if let Some(share) = &record.share {
                lock["slot"] = json!(share.slot);
            }
            if let Some(label) = &record.label {
                lock["holderLabel"] = json!(label.as_str());
            }
            lock
        })
        .collect();
    format!("1{}", json!({ "locks": locks, "next": page.next }))
}

pub fn report(findings: Vec<Finding>) -> String {
    format!("1{}", json!(findings))
}

pub(super) fn text(value: impl AsRef<str>) -> String {
    format!("1{}", value.as_ref())
}

pub fn error(error: &Error) -> String {
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

/// Makes the reply from a result.
pub(super) fn of<T>(result: Result<T>, ok: impl FnOnce(T) -> String) -> Reply {
    match result {
        Ok(value) => ok(value).into(),
        Err(reason) => reason.into(),
    }
}

/// Makes the reply from a result that the call returns at once.
pub(super) fn now<T>(result: Result<T>, ok: impl FnOnce(T) -> String) -> String {
    of(result, ok).text
}
