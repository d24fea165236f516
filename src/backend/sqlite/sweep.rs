//! Removes expired locks that nobody released. They do no harm, but they would pile up.

use rusqlite::{Connection, OptionalExtension, params};

use super::values::stored;
use crate::lock::share::MARK_LEASE_MS;
use crate::lock::time::TIME_TOLERANCE_MS;

/// How many locks a sweep looks at.
const SWEEP_WINDOW: i64 = 512;
/// How many operations cause a sweep. An operation adds at most one lock, so expired locks are removed
/// faster than they are added.
const SWEEP_EVERY: usize = 256;

/// Goes through the tables in the order of their keys, window by window, again and again.
pub(super) struct Sweeper {
    after: String,
    /// The record and the lockId of the last holder of the window.
    after_holder: (String, String),
    operations: usize,
}

/// The first sweep is due at once, because many processes do not live long.
impl Default for Sweeper {
    fn default() -> Self {
        Self {
            after: String::new(),
            after_holder: Default::default(),
            operations: SWEEP_EVERY,
        }
    }
}

impl Sweeper {
    pub(super) fn count(&mut self, operations: usize) {
        self.operations = self.operations.saturating_add(operations);
    }

    pub(super) fn sweep_if_due(&mut self, db: &Connection, now_ms: u64) -> rusqlite::Result<()> {
        if self.is_due() {
            self.sweep(db, now_ms)?;
            self.operations = 0;
        }
        Ok(())
    }

    fn is_due(&self) -> bool {
        self.operations >= SWEEP_EVERY
    }

    fn sweep(&mut self, db: &Connection, now_ms: u64) -> rusqlite::Result<()> {
        self.sweep_locks(db, now_ms)?;
        self.sweep_holders(db)
    }

    fn sweep_locks(&mut self, db: &Connection, now_ms: u64) -> rusqlite::Result<()> {
        let last: Option<String> = db
            .prepare_cached(include_str!("sql/sweep_end.sql"))?
            .query_row(params![self.after, SWEEP_WINDOW], |row| row.get(0))
            .optional()?;
        let expired = stored(now_ms.saturating_sub(TIME_TOLERANCE_MS));
        let last_mark = stored(now_ms.saturating_add(MARK_LEASE_MS));
        db.prepare_cached(include_str!("sql/sweep.sql"))?
            .execute(params![
                self.after,
                SWEEP_WINDOW,
                expired,
                stored(now_ms),
                last_mark
            ])?;
        self.after = last.unwrap_or_default();
        Ok(())
    }

    /// Removes holders whose record a program has removed or replaced that does not know them.
    fn sweep_holders(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let (record_id, lock_id) = &self.after_holder;
        let after = params![record_id, lock_id, SWEEP_WINDOW];
        let last = db
            .prepare_cached(include_str!("sql/sweep_holders_end.sql"))?
            .query_row(after, |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        db.prepare_cached(include_str!("sql/sweep_holders.sql"))?
            .execute(after)?;
        self.after_holder = last.unwrap_or_default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sqlite::file::connection::SCHEMA;

    const NOW: i64 = 1_700_000_000_000;

    fn keys(db: &Connection) -> i64 {
        db.query_row("SELECT count(*) FROM syncguard_locks", [], |row| row.get(0))
            .unwrap()
    }

    /// Whatever is live in between, every expired lock is gone after one round.
    #[test]
    fn a_round_removes_what_has_expired_and_nothing_else() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(SCHEMA).unwrap();
        let mut insert = db
            .prepare("INSERT INTO syncguard_locks VALUES (?1, ?1, ?2, 0, '', '')")
            .unwrap();
        let total = 5 * SWEEP_WINDOW;
        for n in 0..total {
            // At the tolerance's end, and one millisecond before it.
            let expires_at_ms = NOW - 1000 + n % 2;
            insert
                .execute(params![format!("k{n}"), expires_at_ms])
                .unwrap();
        }
        let mut sweeper = Sweeper::default();
        for _ in 0..=5 {
            sweeper.sweep(&db, NOW.unsigned_abs()).unwrap();
        }
        assert_eq!(keys(&db), total / 2);
        for _ in 0..=5 {
            sweeper.sweep(&db, NOW.unsigned_abs() + 1).unwrap();
        }
        assert_eq!(keys(&db), 0);
    }

    #[test]
    fn is_due_at_once_and_then_now_and_again() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(SCHEMA).unwrap();
        let mut sweeper = Sweeper::default();
        assert!(sweeper.is_due());
        sweeper.sweep_if_due(&db, NOW.unsigned_abs()).unwrap();
        sweeper.count(SWEEP_EVERY - 1);
        assert!(!sweeper.is_due());
        sweeper.count(1);
        assert!(sweeper.is_due());
    }
}
