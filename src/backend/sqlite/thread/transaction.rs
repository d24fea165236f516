//! A transaction, from BEGIN to COMMIT.

use std::path::Path;

use rusqlite::Connection;

use super::worker::Access;
use crate::backend::sqlite::error::{is_busy, map, surely_not_committed};
use crate::error::Error;

pub(super) struct Failed {
    error: rusqlite::Error,
    committing: bool,
}

impl Failed {
    pub(super) fn is_busy(&self) -> bool {
        is_busy(&self.error)
    }

    pub(super) fn may_have_committed(&self) -> bool {
        self.committing && !self.is_busy() && !surely_not_committed(&self.error)
    }

    pub(super) fn mapped(&self, path: &Path) -> Error {
        let mapped = map(&self.error, path);
        if self.may_have_committed() {
            mapped.outcome_unknown()
        } else {
            mapped
        }
    }
}

/// An error before the COMMIT.
impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self {
            error,
            committing: false,
        }
    }
}

/// Runs `work` in a transaction, which is rolled back if it fails. If the rollback fails too, the
/// connection is still in the transaction.
pub(super) fn transaction<T>(
    db: &Connection,
    access: Access,
    work: impl FnOnce() -> rusqlite::Result<T>,
) -> Result<T, Failed> {
    let begin = match access {
        Access::Write => "BEGIN IMMEDIATE",
        Access::Read => "BEGIN",
    };
    let done = execute(db, begin)
        .and_then(|()| work())
        .map_err(Failed::from)
        .and_then(|done| {
            let committing = true;
            execute(db, "COMMIT")
                .map(|()| done)
                .map_err(|error| Failed { error, committing })
        });
    if done.is_err() && !db.is_autocommit() {
        let _ = execute(db, "ROLLBACK");
    }
    done
}

fn execute(db: &Connection, statement: &str) -> rusqlite::Result<()> {
    db.prepare_cached(statement)?.execute([]).map(drop)
}
