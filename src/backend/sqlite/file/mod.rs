//! The open lock file.

#[cfg(any(test, windows))]
pub mod accounts;
pub(super) mod claim;
mod cleanup_guard;
pub(super) mod connection;
mod location;
mod moving;
mod private;
pub(super) mod system;

use std::cell::Cell;
use std::path::PathBuf;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::config::Settings;
use super::error::Failure;
use super::store::Sql;
use crate::error::Error;
use crate::lock::time::system_now_ms;

use claim::Claim;
use cleanup_guard::CleanupGuard;
use connection::{Opened, Wal};
pub(super) use location::Location;
#[cfg(test)]
pub(super) use location::{Places, temp_name};
use system::FileSystem;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

pub(super) struct LockFile {
    pub(super) path: PathBuf,
    pub(super) db: Connection,
    /// Whether the file is on a disk of this machine.
    pub(super) is_local: bool,
    syncs: bool,
    /// Whether SQLite has failed. The file has to be opened again.
    has_failed: Cell<bool>,
    /// Dropped after the connection, because fields are dropped in their order.
    claim: Claim,
    guards: Vec<CleanupGuard>,
}

impl LockFile {
    pub(super) fn open(settings: &Settings) -> Result<Self, Failure> {
        let located = location::locate(settings)?;
        let path = located.path.clone();
        let system = system::check(&path, settings.allow_network_file_system)?;
        let opened = Claim::open(&path, || connection::open(&path)).ok_or_else(|| {
            Error::invalid_argument(format!(
                "The lock file {} is open in this process through another copy of SyncGuard or of SQLite. One process can only use one of them for a file",
                path.display()
            ))
        })?;
        let (db, claim) = match opened? {
            (Opened::Ready(db), claim) => (db, claim),
            (Opened::Moved(to), _) => return Err(located.moved_to(&to)),
        };
        Ok(Self {
            is_local: system == FileSystem::Local,
            path,
            db,
            syncs: false,
            has_failed: Cell::new(false),
            claim,
            guards: located.guards,
        })
    }

    /// Runs `work` in a transaction, which is rolled back if it fails. `work` gets the time in
    /// milliseconds.
    pub(super) fn transaction<T>(
        &self,
        access: Access,
        work: impl FnOnce(&Connection, u64) -> Sql<T>,
    ) -> Result<T, Failure> {
        let begin = match access {
            Access::Write => "BEGIN IMMEDIATE",
            Access::Read => "BEGIN",
        };
        let done = self
            .execute(begin)
            .map_err(|error| Failure::new(error, &self.path))
            .and_then(|()| {
                work(&self.db, system_now_ms()).map_err(|error| Failure::new(error, &self.path))
            })
            .and_then(|done| match self.execute("COMMIT") {
                Ok(()) => Ok(done),
                Err(error) => Err(Failure::of_commit(error, &self.path)),
            });
        if let Err(failure) = &done {
            if !self.db.is_autocommit() {
                let _ = self.execute("ROLLBACK");
            }
            self.has_failed
                .set(!failure.is_busy || !self.db.is_autocommit());
        }
        done
    }

    fn execute(&self, statement: &str) -> rusqlite::Result<()> {
        self.db.prepare_cached(statement)?.execute([]).map(drop)
    }

    /// Makes a file in a temporary directory look new. Call it now and then.
    pub(super) fn refresh(&mut self) {
        for guard in &mut self.guards {
            guard.refresh();
        }
    }

    /// Returns whether the path still leads to this file. False if the file was deleted or replaced:
    /// other processes then use the new one.
    fn is_current(&self) -> bool {
        self.claim.is_current()
    }

    pub(super) fn is_usable(&self) -> bool {
        !self.has_failed.get() && self.is_current()
    }

    /// Returns whether a COMMIT that need not wait for the disk certainly does not.
    pub(super) fn only_appends(&self) -> bool {
        connection::wal(&self.db) == Ok(Wal::Growing)
    }

    /// Writes the WAL back if it has become long. If that fails, the next operation causes another try.
    pub(super) fn write_back_if_due(&self) {
        if connection::wal(&self.db) == Ok(Wal::Long) {
            let _ = connection::write_back(&self.db);
        }
    }

    /// Sets whether a COMMIT waits for the disk.
    pub(super) fn set_syncs(&mut self, syncs: bool) -> Result<(), Failure> {
        if self.syncs != syncs {
            connection::set_syncs(&self.db, syncs)
                .map_err(|error| Failure::new(error, &self.path))?;
            self.syncs = syncs;
        }
        Ok(())
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if !self.is_current() {
            // Closing would remove the WAL and the shared memory, which belong to the new file by now.
            let _ = self
                .db
                .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}
