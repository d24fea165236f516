//! Replies as JavaScript reads them: a tag, then fields of fixed width, then the rest.

use std::fmt::Write;

use serde_json::json;

use crate::backend::{ExtendOutcome, LockRecord, Miss, ReleaseOutcome};
use crate::client::Grant;
use crate::error::{Error, Result};

pub const LOCKED: &str = "L";
/// An answer to nobody: the operation is over.
pub const NOTHING: &str = "Z";
/// In front of a reply that is not the last one: the caller is answered, work goes on.
pub const INTERIM: char = '~';

pub fn acquired(grant: Option<Grant>) -> String {
    let Some(grant) = grant else {
        return LOCKED.to_owned();
    };
    let mut reply = String::with_capacity(64);
    let _ = write!(
        reply,
        "A{}{}{},{}",
        grant.lock_id.as_str(),
        grant.fence,
        grant.expires_at_ms,
        grant.valid_for.as_millis()
    );
    reply
}

pub fn released(outcome: ReleaseOutcome) -> String {
    match outcome {
        ReleaseOutcome::Released => "1".to_owned(),
        ReleaseOutcome::Missed(miss) => missed(miss),
    }
}

pub fn extended(outcome: ExtendOutcome) -> String {
    match outcome {
        ExtendOutcome::Extended { expires_at_ms } => format!("1{expires_at_ms}"),
        ExtendOutcome::Missed(miss) => missed(miss),
    }
}

fn missed(miss: Miss) -> String {
    match miss {
        Miss::NotFound => "0".to_owned(),
        Miss::Expired => "2".to_owned(),
    }
}

pub fn boolean(value: bool) -> String {
    if value { "1" } else { "0" }.to_owned()
}

pub fn found(record: Option<LockRecord>) -> String {
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

pub fn text(value: impl AsRef<str>) -> String {
    format!("1{}", value.as_ref())
}

pub fn error(error: &Error) -> String {
    let details: serde_json::Map<_, _> = error
        .details
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    let body = json!({
        "code": error.code,
        "message": error.message,
        "cause": error.cause,
        "details": details,
    });
    format!("E{body}")
}

/// The reply to a result, whatever it is.
pub fn of<T>(result: Result<T>, ok: impl FnOnce(T) -> String) -> String {
    match result {
        Ok(value) => ok(value),
        Err(reason) => error(&reason),
    }
}
