//! Opening the file: nothing is written to it before it is known to be ours or empty.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::Failure;
use crate::backend::sqlite::error::{is_busy, map};
use crate::error::{Error, Result};

/// Marks the file as ours ("SGlk"), in SQLite's own header field for this.
const APPLICATION_ID: i64 = 0x5347_6c6b;
const SCHEMA_VERSION: i64 = 1;
pub(crate) const SCHEMA: &str = include_str!("../sql/schema.sql");

pub(super) fn open(path: &Path) -> Result<Connection, Failure> {
    check_path(path).map_err(Failure::Failed)?;
    // No SQLITE_OPEN_URI: a path is a path, also when it starts with "file:".
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let fail = |error: rusqlite::Error| failure(error, path);
    let mut connection = Connection::open_with_flags(path, flags).map_err(fail)?;
    // Waiting is done by the worker, which knows the deadlines.
    connection
        .busy_timeout(Duration::ZERO)
        .and_then(|()| settle_pragmas(&connection))
        .map_err(fail)?;
    match identify(&connection).map_err(fail)? {
        Identity::Ours => {}
        Identity::Empty => create(&mut connection).map_err(fail)?,
        Identity::Newer(version) => {
            return Err(refused(format!(
                "The lock file {} was made by a newer version of SyncGuard (schema {version}, this one knows {SCHEMA_VERSION}): it was left as it is. Update this program, or use another file",
                path.display()
            )));
        }
        Identity::Foreign => {
            return Err(refused(format!(
                "The file {} is the database of another program: it was left as it is. Give the locks a file of their own",
                path.display()
            )));
        }
    }
    // Only now: this writes to a file that is not in WAL mode yet.
    let mode: String = connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(fail)?;
    if mode != "wal" {
        return Err(refused(format!(
            "The lock file {} is on a file system that several processes cannot share memory on (SQLite's WAL): use a local disk",
            path.display()
        )));
    }
    Ok(connection)
}

fn refused(message: String) -> Failure {
    Failure::Failed(Error::invalid_argument(message))
}

fn failure(error: rusqlite::Error, path: &Path) -> Failure {
    if is_busy(&error) {
        Failure::Busy(path.to_owned())
    } else {
        Failure::Failed(map(&error, path))
    }
}

/// SQLite says "unable to open database file" for all of these.
fn check_path(path: &Path) -> Result<()> {
    let problem = match fs::metadata(path) {
        Ok(found) if found.is_dir() => "is a directory: a file is needed",
        Ok(found) if !found.is_file() => "is not a regular file",
        Ok(found) if found.permissions().readonly() => "is read-only",
        Ok(_) => return Ok(()),
        Err(_) => match path.parent().map(fs::metadata) {
            Some(Ok(parent)) if parent.is_dir() => return Ok(()),
            _ => "is in a directory that does not exist or cannot be entered: create it first",
        },
    };
    Err(Error::invalid_argument(format!(
        "The lock file {} {problem}",
        path.display()
    )))
}

/// Settings of this connection; none of them writes to the file.
fn settle_pragmas(connection: &Connection) -> rusqlite::Result<()> {
    set_syncs(connection, false)?;
    // Where fsync does not reach the disk itself (macOS).
    connection.pragma_update(None, "fullfsync", true)?;
    // That is done where waiting does no harm: see `write_back`.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // What the WAL grew to while a reader kept it from being reused is given back.
    connection.pragma_update(None, "journal_size_limit", JOURNAL_SIZE_LIMIT)
}

/// Whether a COMMIT waits for the disk. What was committed before then gets there too.
pub(super) fn set_syncs(connection: &Connection, syncs: bool) -> rusqlite::Result<()> {
    connection.execute_batch(if syncs {
        "PRAGMA synchronous = FULL"
    } else {
        "PRAGMA synchronous = NORMAL"
    })
}

pub(super) struct Wal {
    pages: i64,
    /// How many of them the file itself has too.
    written_back: i64,
}

impl Wal {
    pub(super) fn has_more_than_the_file(&self) -> bool {
        self.written_back < self.pages
    }

    pub(super) fn is_long(&self) -> bool {
        self.pages >= LONG_WAL_PAGES
    }
}

/// A look at shared memory. Unlike a transaction it never waits for a process that is in the middle
/// of changing that: it fails.
pub(super) fn wal(connection: &Connection) -> rusqlite::Result<Wal> {
    connection
        .prepare_cached("PRAGMA wal_checkpoint(NOOP)")?
        .query_row([], |row| {
            Ok(Wal {
                pages: row.get(1)?,
                written_back: row.get(2)?,
            })
        })
}

/// As much of the WAL as nobody reads any more. Waits for the disk, but for no process.
pub(super) fn write_back(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?
        .query_row([], |_| Ok(()))
}

/// Writing the WAL back (16 MiB then) means waiting for the disk: not too often.
const LONG_WAL_PAGES: i64 = 4000;
const JOURNAL_SIZE_LIMIT: i64 = 32 * 1024 * 1024;

enum Identity {
    Ours,
    Empty,
    Newer(i64),
    Foreign,
}

fn identify(connection: &Connection) -> rusqlite::Result<Identity> {
    let number =
        |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let application = number("application_id")?;
    let version = number("user_version")?;
    let objects: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application, version, objects) {
        (APPLICATION_ID, SCHEMA_VERSION, _) => Identity::Ours,
        (APPLICATION_ID, newer, _) | (0, newer, 0) if newer > SCHEMA_VERSION => {
            Identity::Newer(newer)
        }
        (0, 0, 0) => Identity::Empty,
        _ => Identity::Foreign,
    })
}

/// All or nothing, and only by the first of several processes that come at once.
fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    if matches!(identify(&transaction)?, Identity::Empty) {
        transaction.execute_batch(SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    }
    transaction.commit()
}
