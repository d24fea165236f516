//! Converts SQLite's errors. Their texts name tables and columns, but never the values in them.

use std::path::Path;

use rusqlite::{Error as SqliteError, ErrorCode as Code, ffi};

use super::file::Location;
use super::store::StoreError;
use crate::error::Error;

/// Why the file could not be opened, or a transaction could not be completed.
#[derive(Debug)]
pub(super) struct Failure {
    /// What to report if there is no time for another attempt.
    pub(super) error: Error,
    /// Whether another process uses the file right now, so that another attempt may succeed.
    pub(super) is_busy: bool,
}

impl Failure {
    pub(super) fn new(error: impl Into<StoreError>, path: &Path) -> Self {
        match error.into() {
            StoreError::Ours(error) => error.into(),
            StoreError::Sqlite(error) => Self {
                is_busy: is_busy(&error),
                error: map(&error, path),
            },
        }
    }

    pub(super) fn of_commit(error: SqliteError, path: &Path) -> Self {
        let had_no_effect = is_busy(&error) || surely_not_committed(&error);
        let failure = Self::new(error, path);
        if had_no_effect {
            failure
        } else {
            failure.error.outcome_unknown().into()
        }
    }

    pub(super) fn busy(path: &Path) -> Self {
        Self {
            error: timed_out(path),
            is_busy: true,
        }
    }
}

/// An error that another attempt would meet again.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            error,
            is_busy: false,
        }
    }
}

/// Returns whether another connection uses the file right now, so that waiting helps.
pub(super) fn is_busy(error: &SqliteError) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(Code::DatabaseBusy | Code::DatabaseLocked | Code::FileLockingProtocolFailed)
    )
}

/// Returns whether a COMMIT that failed like this certainly had no effect, because its last frame, which
/// makes it valid, was not written. After any other failure, such as one of fsync, a recovery of the file
/// may find it valid.
fn surely_not_committed(error: &SqliteError) -> bool {
    extended(error).is_some_and(|code| {
        matches!(
            code,
            ffi::SQLITE_FULL | ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_BUSY
        )
    })
}

fn extended(error: &SqliteError) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}

pub(super) fn timed_out(path: &Path) -> Error {
    Error::timeout(format!(
        "The lock file {} stayed busy for longer than the timeout, because another process is in the middle of a write, or was stopped there. Resume or end that process, or try again later",
        path.display()
    ))
}

pub(super) fn stuck(location: &Location) -> Error {
    Error::timeout(format!(
        "The {location} could not be read or written within the timeout, because its disk does not answer. Check the disk"
    ))
    .outcome_unknown()
}

fn map(error: &SqliteError, path: &Path) -> Error {
    let file = path.display();
    let mapped = match error.sqlite_error_code() {
        _ if is_busy(error) => timed_out(path),
        Some(Code::DiskFull) => Error::unavailable(format!(
            "The lock file {file} cannot be written, because the disk is full. Free some space on it"
        )),
        Some(Code::ReadOnly) => Error::invalid_argument(format!(
            "The lock file {file} is read-only, or its directory is: this process must be able to write both"
        )),
        Some(Code::CannotOpen | Code::PermissionDenied) => Error::invalid_argument(format!(
            "The lock file {file} cannot be opened: this process must be able to write it and its directory"
        )),
        Some(Code::NotADatabase) => Error::invalid_argument(format!(
            "The file {file} is not a SQLite database: it was left as it is. Give the locks a file of their own"
        )),
        Some(Code::DatabaseCorrupt) => Error::internal(format!(
            "The lock file {file} is damaged. Stop all programs that use it, then delete it: its locks and fences are lost"
        )),
        Some(Code::SystemIoFailure) => Error::unavailable(format!(
            "The lock file {file} cannot be read or written. Check its disk"
        )),
        _ => Error::internal(format!(
            "SQLite refused an operation on the lock file {file}. The cause and context.sqliteCode say why"
        )),
    };
    let mapped = mapped.cause(error);
    match extended(error) {
        Some(code) => mapped.detail("sqliteCode", code.to_string()),
        None => mapped,
    }
}
