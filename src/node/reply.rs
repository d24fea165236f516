//! Replies as JavaScript reads them: a tag, then fields of fixed width, then the rest.

use std::fmt::Write;
use std::time::Instant;

use serde_json::json;

use crate::backend::{ExtendOutcome, LockRecord, Miss, ReleaseOutcome};
use crate::client::Grant;
use crate::error::{Error, Result};

/// A reply on its way.
#[derive(Default)]
pub struct Reply {
    text: String,
    /// JavaScript is told how much time is left when it gets the reply, not when it was made:
    /// its thread may have been busy in between.
    valid_until: Option<Instant>,
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

    /// As JavaScript gets it, now.
    pub fn deliver(self) -> String {
        let mut text = self.text;
        if let Some(valid_until) = self.valid_until {
            let left = valid_until.saturating_duration_since(Instant::now());
            let _ = write!(text, "{}", left.as_millis());
        }
        text
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self {
            text,
            valid_until: None,
        }
    }
}

pub fn acquired(grant: Option<Grant>) -> Reply {
    let Some(grant) = grant else {
        return "L".to_owned().into();
    };
    let mut text = String::with_capacity(64);
    let _ = write!(
        text,
        "A{}{}{},",
        grant.lock_id.as_str(),
        grant.fence,
        grant.expires_at_ms,
    );
    Reply {
        text,
        valid_until: Some(grant.valid_until),
    }
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
pub fn of<T, R: From<String>>(result: Result<T>, ok: impl FnOnce(T) -> R) -> R {
    match result {
        Ok(value) => ok(value),
        Err(reason) => error(&reason).into(),
    }
}
