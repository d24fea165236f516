//! The only error type: a code that the caller can act on, and a sentence for a person.
//!
//! Messages never contain a key, a lockId or a credential. Texts of drivers may, so they are not used
//! unless a backend knows that they are harmless.

use serde::{Deserialize, Serialize};

use crate::foreign::Thrown;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The codes of the public `LockError`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorCode {
    ServiceUnavailable,
    AuthFailed,
    InvalidArgument,
    RateLimited,
    NetworkTimeout,
    AcquisitionTimeout,
    Internal,
    Aborted,
    LockLost,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub code: ErrorCode,
    pub message: String,
    pub cause: Option<Cause>,
    /// Facts for programs, such as `("sqlstate", "40001")`.
    pub details: Vec<(&'static str, serde_json::Value)>,
    /// Whether the request may have taken effect although it failed. An acquire must then be undone.
    pub outcome_unknown: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The text of the driver or the system, if it is safe to show.
    Text(String),
    Error(Box<Error>),
    /// A value that the program itself threw. It gets the same value back.
    Thrown(Thrown),
}

impl Error {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            cause: None,
            details: Vec::new(),
            outcome_unknown: false,
        }
    }

    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgument, message)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ServiceUnavailable, message)
    }

    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NetworkTimeout, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, message)
    }

    pub fn cause(mut self, cause: impl ToString) -> Self {
        self.cause = Some(Cause::Text(cause.to_string()));
        self
    }

    pub fn because_of(mut self, error: Self) -> Self {
        self.cause = Some(Cause::Error(Box::new(error)));
        self
    }

    pub fn thrown(mut self, thrown: Thrown) -> Self {
        self.cause = Some(Cause::Thrown(thrown));
        self
    }

    /// Returns the text of the driver or the system if there is one, and otherwise the message.
    pub fn said(&self) -> &str {
        match &self.cause {
            Some(Cause::Text(text)) => text,
            _ => &self.message,
        }
    }

    pub fn detail(mut self, name: &'static str, value: impl Into<serde_json::Value>) -> Self {
        self.details.push((name, value.into()));
        self
    }

    pub fn outcome_unknown(mut self) -> Self {
        self.outcome_unknown = true;
        self
    }
}
