//! Moves the default file from the temporary directory, where the previous version keeps it, to the home
//! directory.
//!
//! One file at a time is in use, and every process of this version finds out which:
//!
//! - While any process has the file in the temp directory open, it stays the file. The one in the home
//!   directory holds a note that says where it is.
//! - Once no process has it open, the next process moves it: the fence counters and locks are copied, and a
//!   note is left in its place. The previous version refuses a file with such a note, because it takes it
//!   for one of a newer version.
//!
//! A SQLite connection in WAL mode holds a lock on its file from its first read until it is closed. Once
//! an exclusive lock is granted, no other process has the file open. See decision 31.

use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params_from_iter};

use super::claim::Claim;
use super::connection::{self, Identity, identify};
use crate::backend::sqlite::error::{Failure, is_busy};
use crate::error::Error;

/// Returns the file to use: the one in the home directory, or a previous one that a process still uses.
/// `previous` is the one in this process's temporary directory, if there can be one.
pub(super) fn settle(home: &Path, previous: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(opened) = Claim::open(home, || connection::connect(home, "")) else {
        // Opening the file reports what is wrong.
        return Ok(home.to_owned());
    };
    let fail = |error: rusqlite::Error| Failure::new(error, home);
    let (db, claim) = opened.map_err(fail)?;
    // In this order, so that the claim is dropped last.
    let _claim = claim;
    let mut db = db;
    match identify(&db).map_err(fail)? {
        Identity::Ours if previous.is_none_or(is_left) => {
            return Ok(home.to_owned());
        }
        Identity::Newer(_) | Identity::Foreign => return Ok(home.to_owned()),
        Identity::Ours | Identity::Empty | Identity::Moved(_) => {}
    }
    connection::set_syncs(&db, true).map_err(fail)?;
    // Other processes that come now wait until the move is complete.
    let transaction = db
        .transaction_with_behavior(TransactionBehavior::Exclusive)
        .map_err(fail)?;
    let identity = identify(&transaction).map_err(fail)?;
    let is_used = matches!(identity, Identity::Ours);
    // A process with another temp directory may have found another file in use.
    let noted = match &identity {
        Identity::Moved(other) if Some(other.as_path()) != previous => Some(other.as_path()),
        _ => None,
    };
    let (mut taken, mut in_use) = (Vec::new(), Vec::new());
    for file in previous.into_iter().chain(noted) {
        match take(file)? {
            Found::Left => {}
            Found::Taken(previous) => taken.push(previous),
            Found::InUse => in_use.push(file),
        }
    }
    match *in_use.as_slice() {
        [] => {
            if is_used {
                connection::add_holders(&transaction).map_err(fail)?;
            } else {
                connection::make_ours(&transaction).map_err(fail)?;
            }
            for previous in &taken {
                previous.copy_to(&transaction)?;
            }
            // The copies reach the disk before the note. If the power fails in between, they are made
            // again.
            transaction.commit().map_err(fail)?;
            for previous in taken {
                previous.leave_note(home)?;
            }
            Ok(home.to_owned())
        }
        [other] if !is_used => {
            if !matches!(&identity, Identity::Moved(noted) if noted == other) {
                connection::leave_note(&transaction, other).map_err(fail)?;
                transaction.commit().map_err(fail)?;
            }
            Ok(other.to_owned())
        }
        _ => Err(still_in_use(home, &in_use).into()),
    }
}

fn still_in_use(home: &Path, in_use: &[&Path]) -> Error {
    let names: Vec<_> = in_use
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    Error::unavailable(format!(
        "Programs with a previous version of SyncGuard have the lock file {} open. It has been replaced by {}, and a program that uses one of these files does not see the locks in the other. Stop or update the programs with the previous version, then try again",
        names.join(" and "),
        home.display()
    ))
}

/// Returns whether the previous version would not use this file, because it holds a note or is not ours.
fn is_left(file: &Path) -> bool {
    let opened = Claim::open(file, || {
        Connection::open_with_flags(
            file,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )
        .and_then(|db| identify(&db))
    });
    matches!(
        opened,
        Some(Ok((
            Identity::Moved(_) | Identity::Newer(_) | Identity::Foreign,
            _
        )))
    )
}

enum Found {
    /// The previous version does not use the file.
    Left,
    Taken(Box<Previous>),
    /// Another process has the file open.
    InUse,
}

/// A file in the temporary directory that nobody else has open, and that nobody can open until this is
/// dropped.
struct Previous {
    path: PathBuf,
    db: Connection,
    _claim: Claim,
}

fn take(path: &Path) -> Result<Found, Failure> {
    let opened = Claim::open(path, || lock_out_others(path));
    // Another copy of SQLite in this process has it open.
    let Some(opened) = opened else {
        return Ok(Found::InUse);
    };
    match opened {
        Ok(((db, identity), claim)) => Ok(match identity {
            Identity::Ours | Identity::Empty => Found::Taken(Box::new(Previous {
                path: path.to_owned(),
                db,
                _claim: claim,
            })),
            Identity::Moved(_) | Identity::Newer(_) | Identity::Foreign => Found::Left,
        }),
        Err(error) if is_busy(&error) => Ok(Found::InUse),
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
            Ok(Found::Left)
        }
        // The file cannot even be created there, and the previous version cannot create it either.
        Err(_) if !path.exists() => Ok(Found::Left),
        Err(error) => Err(Failure::new(error, path)),
    }
}

fn lock_out_others(path: &Path) -> rusqlite::Result<(Connection, Identity)> {
    // Not after a read, which takes a lock that others can share.
    let exclusive = "PRAGMA locking_mode = EXCLUSIVE";
    let db = connection::connect(path, exclusive)?;
    let identity = identify(&db)?;
    if matches!(identity, Identity::Ours) {
        // Leaves WAL mode, in which even the only connection to the file takes no exclusive lock.
        db.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    }
    if matches!(identity, Identity::Ours | Identity::Empty) {
        connection::set_syncs(&db, true)?;
        db.execute_batch("BEGIN EXCLUSIVE")?;
    }
    // Then it can be copied like any other.
    match identity {
        Identity::Empty => connection::make_ours(&db)?,
        Identity::Ours => connection::add_holders(&db)?,
        _ => {}
    }
    Ok((db, identity))
}

impl Previous {
    fn copy_to(&self, home: &Transaction<'_>) -> Result<(), Failure> {
        copy(
            &self.db,
            "SELECT fence_key, fence, key_debug FROM syncguard_fence_counters",
            home,
            include_str!("../sql/copy_fence.sql"),
        )
        .and_then(|()| {
            copy(
                &self.db,
                "SELECT key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key FROM syncguard_locks",
                home,
                include_str!("../sql/copy_lock.sql"),
            )
        })
        .and_then(|()| {
            copy(
                &self.db,
                "SELECT record_id, lock_id, slot, expires_at_ms, acquired_at_ms, fence, holder_label FROM syncguard_holders",
                home,
                include_str!("../sql/copy_holder.sql"),
            )
        })
        .map_err(|error| Failure::new(error, &self.path))
    }

    /// Writes the note with the new path of the locks.
    fn leave_note(self, home: &Path) -> Result<(), Failure> {
        connection::leave_note(&self.db, home)
            .and_then(|()| self.db.execute_batch("COMMIT"))
            .map_err(|error| Failure::new(error, &self.path))
    }
}

fn copy(from: &Connection, select: &str, to: &Connection, insert: &str) -> rusqlite::Result<()> {
    let mut insert = to.prepare(insert)?;
    let mut select = from.prepare(select)?;
    let columns = select.column_count();
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let values: Vec<Value> = (0..columns)
            .map(|column| row.get(column))
            .collect::<rusqlite::Result<_>>()?;
        insert.execute(params_from_iter(values))?;
    }
    Ok(())
}
