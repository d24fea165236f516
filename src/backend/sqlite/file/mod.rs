//! The open file.

#[cfg(any(test, windows))]
pub mod accounts;
pub(super) mod claim;
pub(super) mod connection;
mod local;
mod location;

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::error::{Error, Result};

use claim::Claim;
pub(super) use location::default_path;

pub(super) struct LockFile {
    pub(super) path: PathBuf,
    pub(super) db: Connection,
    /// On a disk of this machine.
    pub(super) is_local: bool,
    syncs: bool,
    /// After the connection: fields are dropped in this order.
    claim: Claim,
}

/// Why the file could not be opened or used.
pub(super) enum Failure {
    /// Somebody else is in the way for the moment: try again.
    Busy(PathBuf),
    Failed(Error),
}

impl LockFile {
    /// Without a path: the default file.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let path = match path {
            Some(path) => path.to_owned(),
            None => location::default_file().map_err(Failure::Failed)?,
        };
        let opened = Claim::open(&path, || connection::open(&path)).ok_or_else(|| {
            Failure::Failed(Error::invalid_argument(format!(
                "The lock file {} is open in this process through another copy of SyncGuard or of SQLite. One process can only use one of them for a file",
                path.display()
            )))
        })?;
        let (db, claim) = opened?;
        Ok(Self {
            is_local: local::is_local(&path),
            path,
            db,
            syncs: false,
            claim,
        })
    }

    /// False when the file was deleted or replaced: other processes then use the new one.
    pub(super) fn is_current(&self) -> bool {
        self.claim.is_current()
    }

    /// Whether a COMMIT that need not wait for the disk does not: the first one in a WAL that begins
    /// anew would. Nor is it due to be written back.
    pub(super) fn only_appends(&self) -> bool {
        connection::wal(&self.db).is_ok_and(|wal| wal.has_more_than_the_file() && !wal.is_long())
    }

    /// Writes the WAL back when it has become long. If that fails, now, it is done after the next
    /// operation.
    pub(super) fn write_back_if_due(&self) {
        if connection::wal(&self.db).is_ok_and(|wal| wal.is_long() && wal.has_more_than_the_file())
        {
            let _ = connection::write_back(&self.db);
        }
    }

    /// Whether a COMMIT waits for the disk.
    pub(super) fn set_syncs(&mut self, syncs: bool) -> rusqlite::Result<()> {
        if self.syncs != syncs {
            connection::set_syncs(&self.db, syncs)?;
            self.syncs = syncs;
        }
        Ok(())
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if !self.is_current() {
            // Closing would clean up the companions of the file, which are the new file's by now.
            let _ = self
                .db
                .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}
