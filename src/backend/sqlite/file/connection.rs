//! Opens the file. Nothing is written to it before it is known to be ours or empty.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::backend::sqlite::error::Failure;
use crate::error::{Error, Result};

/// Marks the file as ours ("SGlk"), in SQLite's own header field for this.
const APPLICATION_ID: i64 = 0x5347_6c6b;
const SCHEMA_VERSION: i64 = 1;
/// The table of holders was added later. Versions without it use the same file, so the schema has the same
/// version.
const HOLDERS_SCHEMA: &str = include_str!("../sql/holders_schema.sql");
pub(crate) const SCHEMA: &str = concat!(
    include_str!("../sql/schema.sql"),
    include_str!("../sql/holders_schema.sql")
);

/// Stands in place of the version if the file has moved and only a note with its new path is left.
/// Previous versions take it for a newer schema, which they refuse to use.
const MOVED_VERSION: i64 = 1_000_000;

/// More than there are statements, so that each is prepared once.
const MAX_PREPARED_STATEMENTS: usize = 64;

pub(super) enum Opened {
    Ready(Connection),
    Moved(PathBuf),
}

pub(super) fn open(path: &Path) -> Result<Opened, Failure> {
    check_path(path)?;
    let fail = |error: rusqlite::Error| Failure::new(error, path);
    let mut connection = connect(path, "").map_err(fail)?;
    let found = match identify(&connection).map_err(fail)? {
        Identity::Empty => create(&mut connection).map_err(fail)?,
        found => found,
    };
    match found {
        Identity::Ours | Identity::Empty => {}
        Identity::Moved(to) => return Ok(Opened::Moved(to)),
        Identity::Newer(version) => {
            return Err(Error::invalid_argument(format!(
                "The lock file {} was made by a newer version of SyncGuard (schema {version}, this one knows {SCHEMA_VERSION}): it was left as it is. Update this program, or use another file",
                path.display()
            ))
            .into());
        }
        Identity::Foreign => {
            return Err(Error::invalid_argument(format!(
                "The file {} is the database of another program: it was left as it is. Give the locks a file of their own",
                path.display()
            ))
            .into());
        }
    }
    // Not earlier, because this writes to a file that is not in WAL mode yet.
    let mode: String = connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(fail)?;
    if mode != "wal" {
        return Err(Error::invalid_argument(format!(
            "The lock file {} is on a file system that several processes cannot share memory on (SQLite's WAL): use a local disk",
            path.display()
        ))
        .into());
    }
    // From now on a lock on the file keeps it from being moved. It may have been moved before.
    if let Identity::Moved(to) = identify(&connection).map_err(fail)? {
        return Ok(Opened::Moved(to));
    }
    if !has_holders(&connection).map_err(fail)? {
        add_holders_at_once(&mut connection).map_err(fail)?;
    }
    Ok(Opened::Ready(connection))
}

/// Whether the file has the table of holders, which earlier versions do not create.
fn has_holders(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'syncguard_holders')",
        [],
        |row| row.get(0),
    )
}

/// Adds the table of holders in one transaction. If several processes come at once, the first one does.
/// Processes of earlier versions may use the file meanwhile.
fn add_holders_at_once(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    add_holders(&transaction)?;
    transaction.commit()
}

/// Adds the table of holders, unless the file has it.
pub(super) fn add_holders(transaction: &Connection) -> rusqlite::Result<()> {
    transaction.execute_batch(HOLDERS_SCHEMA)
}

/// Opens a connection with our settings without writing to the file. `first` runs before anything is
/// read from it.
pub(super) fn connect(path: &Path, first: &str) -> rusqlite::Result<Connection> {
    // No SQLITE_OPEN_URI, so that a path may start with "file:".
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // The worker waits instead, because it knows the deadlines.
    connection.busy_timeout(Duration::ZERO)?;
    connection.set_prepared_statement_cache_capacity(MAX_PREPARED_STATEMENTS);
    connection.execute_batch(first)?;
    settle_pragmas(&connection)?;
    Ok(connection)
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

/// Applies the settings of this connection. None of them writes to the file.
fn settle_pragmas(connection: &Connection) -> rusqlite::Result<()> {
    set_syncs(connection, false)?;
    // On macOS fsync does not reach the disk itself.
    connection.pragma_update(None, "fullfsync", true)?;
    // The WAL is written back where waiting does no harm: see `write_back`.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // Limits the size that the WAL keeps after a reader prevented its reuse.
    connection.pragma_update(None, "journal_size_limit", JOURNAL_SIZE_LIMIT)
}

/// Sets whether a COMMIT waits for the disk. Earlier commits then reach the disk too.
pub(super) fn set_syncs(connection: &Connection, syncs: bool) -> rusqlite::Result<()> {
    connection.execute_batch(if syncs {
        "PRAGMA synchronous = FULL"
    } else {
        "PRAGMA synchronous = NORMAL"
    })
}

#[derive(PartialEq, Eq)]
pub(super) enum Wal {
    /// The next commit starts the WAL again, because the file itself has all of it. That waits for the disk.
    WrittenBack,
    /// The next commit only appends to it.
    Growing,
    Long,
}

/// Reads the state of the WAL from shared memory. If another process is changing it, this fails and does
/// not wait as a transaction would.
pub(super) fn wal(connection: &Connection) -> rusqlite::Result<Wal> {
    let (pages, written_back): (i64, i64) = connection
        .prepare_cached("PRAGMA wal_checkpoint(NOOP)")?
        .query_row([], |row| Ok((row.get(1)?, row.get(2)?)))?;
    Ok(if written_back >= pages {
        Wal::WrittenBack
    } else if pages < LONG_WAL_PAGES {
        Wal::Growing
    } else {
        Wal::Long
    })
}

/// Writes back as much of the WAL as nobody reads any more. Waits for the disk, but for no process.
pub(super) fn write_back(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?
        .query_row([], |_| Ok(()))
}

/// The length of the WAL, 16 MiB, at which it is written back. That waits for the disk, so it must not
/// happen too often.
const LONG_WAL_PAGES: i64 = 4000;
const JOURNAL_SIZE_LIMIT: i64 = 32 * 1024 * 1024;

pub(super) enum Identity {
    Ours,
    Empty,
    /// The file has moved to this path.
    Moved(PathBuf),
    Newer(i64),
    Foreign,
}

pub(super) fn identify(connection: &Connection) -> rusqlite::Result<Identity> {
    let number =
        |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let application = number("application_id")?;
    let version = number("user_version")?;
    let objects: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application, version, objects) {
        (APPLICATION_ID, SCHEMA_VERSION, _) => Identity::Ours,
        (APPLICATION_ID, MOVED_VERSION, 1) => {
            let to: String =
                connection.query_row("SELECT path FROM syncguard_moved", [], |row| row.get(0))?;
            Identity::Moved(PathBuf::from(to))
        }
        (APPLICATION_ID, newer, _) | (0, newer, 0) if newer > SCHEMA_VERSION => {
            Identity::Newer(newer)
        }
        (0, 0, 0) => Identity::Empty,
        _ => Identity::Foreign,
    })
}

/// Initializes the file in one transaction. If several processes come at once, only the first one does.
/// Returns what the file is afterwards.
fn create(connection: &mut Connection) -> rusqlite::Result<Identity> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let found = identify(&transaction)?;
    if !matches!(found, Identity::Empty) {
        return Ok(found);
    }
    make_ours(&transaction)?;
    transaction.commit()?;
    Ok(Identity::Ours)
}

/// Creates the tables in an empty file, or in one with a note.
pub(super) fn make_ours(transaction: &Connection) -> rusqlite::Result<()> {
    transaction.execute_batch("DROP TABLE IF EXISTS syncguard_moved")?;
    transaction.execute_batch(SCHEMA)?;
    mark(transaction, SCHEMA_VERSION)
}

/// Replaces the content of the file by a note with the path of the locks.
pub(super) fn leave_note(transaction: &Connection, to: &Path) -> rusqlite::Result<()> {
    transaction.execute_batch(include_str!("../sql/leave_note.sql"))?;
    transaction.execute(
        "INSERT INTO syncguard_moved (path) VALUES (?1)",
        [to.to_string_lossy()],
    )?;
    mark(transaction, MOVED_VERSION)
}

fn mark(transaction: &Connection, version: i64) -> rusqlite::Result<()> {
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", version)
}
