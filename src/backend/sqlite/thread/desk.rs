//! The open file. One at a time works on it: the thread, or a caller that finds it at rest and does
//! its operation where it is, which takes less time than handing it over.
//!
//! A caller must not wait, neither for another process nor for the disk: at the first difficulty it
//! leaves the operation to the thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::transaction::transaction;
use super::worker::Access;
use crate::backend::sqlite::file::LockFile;
use crate::backend::sqlite::store::Sql;
use crate::backend::sqlite::sweep::Sweeper;
use crate::error::Result;
use crate::lock::time::system_now_ms;

/// Then the thread has a turn: to tidy up, and so that a program that does nothing else comes back
/// to its event loop.
const MOST_IN_A_ROW: u32 = 64;
/// An operation takes some ten microseconds. If it took this long, the disk or the system is slow...
const SLOW: Duration = Duration::from_millis(20);
/// ...and no caller tries again for so many times as long: a hundredth of its time, at most, is lost.
const AFTER_SLOW: u32 = 100;

#[derive(Default)]
pub(super) struct Desk {
    /// The thread has nothing to do, had no difficulty, and there is no crowd.
    at_rest: AtomicBool,
    work: Mutex<Work>,
}

#[derive(Default)]
pub(super) struct Work {
    pub(super) open: Option<LockFile>,
    /// Not to be used any more. Closing it may mean waiting for the disk, so the thread does that.
    worn: Option<LockFile>,
    pub(super) sweeper: Sweeper,
    /// Operations of callers since the thread's last one.
    in_a_row: u32,
    not_before: Option<Instant>,
}

impl Desk {
    /// For the thread.
    pub(super) fn sit_down(&self) -> MutexGuard<'_, Work> {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.in_a_row = 0;
        work.worn = None;
        work
    }

    pub(super) fn set_at_rest(&self, at_rest: bool) {
        self.at_rest.store(at_rest, Ordering::Relaxed);
    }

    /// Runs the operation now, if it is certain that it does not have to wait.
    pub(super) fn run_here<T>(
        &self,
        run: &mut impl FnMut(&Connection, u64) -> Sql<T>,
    ) -> Option<Result<T>> {
        // A task of the runtime shares its thread with the connections of other backends.
        if !self.at_rest.load(Ordering::Relaxed) || tokio::task::try_id().is_some() {
            return None;
        }
        self.work.try_lock().ok()?.run_here(run)
    }
}

impl Work {
    fn run_here<T>(
        &mut self,
        run: &mut impl FnMut(&Connection, u64) -> Sql<T>,
    ) -> Option<Result<T>> {
        let started = Instant::now();
        if self.in_a_row >= MOST_IN_A_ROW || self.not_before.is_some_and(|then| started < then) {
            return None;
        }
        let open = self.open.as_mut()?;
        if !open.is_local || !open.is_current() || !open.only_appends() {
            return None;
        }
        open.set_syncs(false).ok()?;
        self.in_a_row += 1;
        self.sweeper.count(1);
        let done = transaction(&open.db, Access::Write, || run(&open.db, system_now_ms()));
        let outcome = match done {
            Ok(outcome) => Some(outcome),
            Err(failed) => {
                let unknown = failed.may_have_committed();
                let error = unknown.then(|| Err(failed.mapped(&open.path)));
                if unknown || !open.db.is_autocommit() {
                    self.worn = self.open.take();
                }
                error
            }
        };
        let took = started.elapsed();
        if took > SLOW {
            self.not_before = Some(Instant::now() + took * AFTER_SLOW);
        }
        outcome
    }
}
