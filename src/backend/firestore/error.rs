//! From gRPC codes to lock errors. A server's text is not passed on: it may quote a document's
//! name, and so a key. What went wrong on this side of the wire is told as the cause.

use std::error::Error as StdError;

use tonic::{Code, ConnectError, Status};

use super::auth::TokenError;
use crate::error::{Error, ErrorCode};

/// Why a call did not do what it should.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing was written: a document is not what it was when it was read.
    Changed,
    /// Nothing was written: the server would not let transactions collide.
    Contended,
    Failed(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The failure of a call that writes nothing.
pub(super) fn read_failure(status: &Status, place: &str) -> Failure {
    match status.code() {
        Code::Aborted => Failure::Contended,
        _ => lock_error(status, place).into(),
    }
}

/// The failure of a commit.
pub(super) fn commit_failure(status: &Status, place: &str) -> Failure {
    match status.code() {
        Code::Aborted => Failure::Contended,
        // How the server says that a precondition does not hold. Should it mean something else,
        // the read that follows tells.
        Code::FailedPrecondition | Code::NotFound | Code::AlreadyExists => Failure::Changed,
        _ if may_have_happened(status) => lock_error(status, place).outcome_unknown().into(),
        _ => lock_error(status, place).into(),
    }
}

fn may_have_happened(status: &Status) -> bool {
    if find::<ConnectError>(status).is_some() || find::<TokenError>(status).is_some() {
        return false;
    }
    match status.code() {
        Code::InvalidArgument
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::ResourceExhausted
        | Code::Unimplemented => {
            // Made on this side of the wire from a broken connection, a code says nothing.
            status.source().is_some()
        }
        _ => true,
    }
}

/// `place`: see [`FirestoreConfig::place`](super::FirestoreConfig::place).
pub(super) fn lock_error(status: &Status, place: &str) -> Error {
    if let Some(error) = find::<TokenError>(status) {
        let told = if error.transient {
            Error::unavailable(format!("No access token for {place} could be had for now"))
        } else {
            no_credentials()
        };
        return told.cause(error);
    }
    let error = match status.code() {
        Code::PermissionDenied => Error::new(
            ErrorCode::AuthFailed,
            format!("{place} denies these credentials access to the database"),
        ),
        Code::Unauthenticated => Error::new(
            ErrorCode::AuthFailed,
            format!("{place} does not accept the credentials"),
        ),
        Code::NotFound => Error::invalid_argument(format!(
            "The database or project does not exist at {place}: check projectId and databaseId"
        )),
        Code::FailedPrecondition => Error::invalid_argument(format!(
            "{place} cannot do this with the database: it must be in Native mode, and the field lockId of the lock collection must be indexed"
        )),
        Code::InvalidArgument | Code::Unimplemented => {
            Error::invalid_argument(format!("{place} refused the request as invalid"))
        }
        // Made on this side of the wire, of an answer that is larger than any lock's.
        Code::OutOfRange => Error::internal(format!("{place} sent an answer that is too large")),
        Code::ResourceExhausted => Error::new(
            ErrorCode::RateLimited,
            format!("{place} refused the request: a quota or rate limit is reached"),
        ),
        Code::DeadlineExceeded => {
            Error::unavailable(format!("{place} could not answer within its own deadline"))
        }
        Code::Aborted => contention(),
        _ => Error::unavailable(format!("{place} is not available")),
    };
    let error = error.detail("grpcCode", code_name(status.code()));
    match status.source() {
        Some(source) => error.cause(chain(source)),
        None => error,
    }
}

/// Also used when retries are used up.
pub(super) fn contention() -> Error {
    Error::unavailable("Too much contention on the documents of this lock: try again later")
}

pub(super) fn no_credentials() -> Error {
    Error::new(
        ErrorCode::AuthFailed,
        "No usable Google credentials: pass credentials or keyFilename, or set up application default credentials",
    )
}

fn find<E: StdError + 'static>(status: &Status) -> Option<&E> {
    let mut source = status.source();
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        source = error.source();
    }
    None
}

/// "transport error: connection refused" …
pub(super) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}

pub(super) fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
