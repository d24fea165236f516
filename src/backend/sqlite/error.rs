//! Converts SQLite's errors. Their texts name tables and columns, but never the values in them.

use std::path::Path;

use rusqlite::{Error as SqliteError, ErrorCode as Code, ffi};

use crate::error::Error;

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
pub(super) fn surely_not_committed(error: &SqliteError) -> bool {
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

pub(super) fn stuck(file: &str) -> Error {
    Error::timeout(format!(
        "The {file} could not be read or written within the timeout, because its disk does not answer. Check the disk"
    ))
    .outcome_unknown()
}

pub(super) fn map(error: &SqliteError, path: &Path) -> Error {
    let file = path.display();
    let mapped = match error.sqlite_error_code() {
        Some(Code::DatabaseBusy | Code::DatabaseLocked | Code::FileLockingProtocolFailed) => {
            timed_out(path)
        }
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
