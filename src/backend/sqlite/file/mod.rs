//! The open lock file.

#[cfg(any(test, windows))]
pub mod accounts;
pub(super) mod claim;
mod cleanup_guard;
pub(super) mod connection;
mod location;
mod moving;
mod places;
mod private;
pub(super) mod system;

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::config::Settings;
use crate::error::{Error, Result};

use claim::Claim;
use cleanup_guard::CleanupGuard;
use connection::Opened;
pub(super) use location::Location;
use location::{IfMoved, Located};
use system::FileSystem;
#[cfg(test)]
pub(super) use {location::temp_name, places::Places};

pub(super) struct LockFile {
    pub(super) path: PathBuf,
    pub(super) db: Connection,
    /// Whether the file is on a disk of this machine.
    pub(super) is_local: bool,
    syncs: bool,
    /// Dropped after the connection, because fields are dropped in their order.
    claim: Claim,
    guards: Vec<CleanupGuard>,
}

/// Why the file could not be opened or used.
pub(super) enum Failure {
    /// Another process uses the file right now. Try again.
    Busy(PathBuf),
    Failed(Error),
}

impl LockFile {
    pub(super) fn open(settings: &Settings) -> Result<Self, Failure> {
        let located = location::locate(settings)?;
        let path = located.path.clone();
        let system =
            system::check(&path, settings.allow_network_file_system).map_err(Failure::Failed)?;
        let opened = Claim::open(&path, || connection::open(&path)).ok_or_else(|| {
            Failure::Failed(Error::invalid_argument(format!(
                "The lock file {} is open in this process through another copy of SyncGuard or of SQLite. One process can only use one of them for a file",
                path.display()
            )))
        })?;
        let (db, claim) = match opened? {
            (Opened::Ready(db), claim) => (db, claim),
            (Opened::Moved(to), _) => return Err(moved(&located, &to)),
        };
        settings.note_file(&path);
        Ok(Self {
            is_local: system == FileSystem::Local,
            path,
            db,
            syncs: false,
            claim,
            guards: located.guards,
        })
    }

    /// Makes a file in a temporary directory look new. Call it now and then.
    pub(super) fn refresh(&mut self) {
        for guard in &mut self.guards {
            guard.refresh();
        }
    }

    /// Returns whether the path still leads to this file. False if the file was deleted or replaced:
    /// other processes then use the new one.
    pub(super) fn is_current(&self) -> bool {
        self.claim.is_current()
    }

    /// Returns whether a COMMIT only appends to the WAL. The first one in a WAL that starts again waits for
    /// the disk, and so does writing the WAL back.
    pub(super) fn only_appends(&self) -> bool {
        connection::wal(&self.db).is_ok_and(|wal| wal.has_more_than_the_file() && !wal.is_long())
    }

    /// Writes the WAL back if it has become long. If that fails, the next operation causes another try.
    pub(super) fn write_back_if_due(&self) {
        if connection::wal(&self.db).is_ok_and(|wal| wal.is_long() && wal.has_more_than_the_file())
        {
            let _ = connection::write_back(&self.db);
        }
    }

    /// Sets whether a COMMIT waits for the disk.
    pub(super) fn set_syncs(&mut self, syncs: bool) -> rusqlite::Result<()> {
        if self.syncs != syncs {
            connection::set_syncs(&self.db, syncs)?;
            self.syncs = syncs;
        }
        Ok(())
    }
}

fn moved(located: &Located, to: &Path) -> Failure {
    let path = located.path.display();
    let to = to.display();
    Failure::Failed(Error::invalid_argument(match &located.if_moved {
        IfMoved::Retry => return Failure::Busy(located.path.clone()),
        IfMoved::NoHome(reason) => format!(
            "The default lock file of this user is {to}, but this process would use {path}, because {reason}: they would not see each other's locks. Set SYNCGUARD_STATE_DIR to the same directory for all processes, or delete {path} if nothing uses the other file any more"
        ),
        IfMoved::Refuse => format!(
            "The lock file {path} has been replaced by {to}, which is the default file: leave out the path to use it, or use another file"
        ),
    }))
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
