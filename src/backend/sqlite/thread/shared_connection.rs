//! The connection to the file, which the thread and the callers share. A caller that finds it idle runs
//! its operation on its own thread, which takes less time than handing the operation over.
//!
//! A caller must not wait, neither for another process nor for the disk. At the first difficulty it
//! leaves the operation to the thread.

use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::backend::sqlite::config::Settings;
use crate::backend::sqlite::file::{Access, LockFile};
use crate::backend::sqlite::store::Sql;
use crate::backend::sqlite::sweep::Sweeper;
use crate::error::Result;

/// How many operations in a row callers run. Then the thread runs one: it cleans up, and a program that
/// does nothing else returns to its event loop.
const MAX_CALLERS_IN_A_ROW: u32 = 64;
/// An operation takes some ten microseconds. If it takes longer than this, the disk or the system is
/// slow, and callers leave operations to the thread for a while.
const SLOW_OPERATION: Duration = Duration::from_millis(20);
/// How many times the duration of a slow operation that lasts: callers lose at most a hundredth of
/// their time.
const SLOW_PAUSE_FACTOR: u32 = 100;

pub(super) struct SharedConnection {
    pub(super) access: Access,
    pub(super) settings: Settings,
    /// Whether the thread has nothing to do, its last transaction succeeded, and callers do not come in
    /// crowds.
    is_idle: AtomicBool,
    state: Mutex<ConnectionState>,
}

#[derive(Default)]
pub(super) struct ConnectionState {
    /// Only the thread opens and closes it, because both may wait for the disk.
    pub(super) file: Option<LockFile>,
    pub(super) sweeper: Sweeper,
    /// The operations of callers since the thread's last one.
    callers_in_a_row: u32,
    /// Until when callers leave operations to the thread.
    not_before: Option<Instant>,
}

impl SharedConnection {
    pub(super) fn new(access: Access, settings: Settings) -> Self {
        Self {
            access,
            settings,
            is_idle: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// Locks the connection, for the thread.
    pub(super) fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        let mut state = self.state.lock();
        state.callers_in_a_row = 0;
        state
    }

    pub(super) fn set_idle(&self, is_idle: bool) {
        self.is_idle.store(is_idle, Ordering::Relaxed);
    }

    /// Runs the operation on this thread, if it is certain that it need not wait.
    pub(super) fn run_here<T>(
        &self,
        run: &mut impl FnMut(&Connection, u64) -> Sql<T>,
    ) -> Option<Result<T>> {
        // A task of the runtime shares its thread with the connections of other backends.
        if !self.is_idle.load(Ordering::Relaxed) || tokio::task::try_id().is_some() {
            return None;
        }
        let mut state = self.state.try_lock()?;
        let state = &mut *state;
        let started = Instant::now();
        if state.callers_in_a_row >= MAX_CALLERS_IN_A_ROW
            || state.not_before.is_some_and(|then| started < then)
        {
            return None;
        }
        let file = state.file.as_mut()?;
        if !file.is_local || !file.is_usable() || !file.only_appends() {
            return None;
        }
        file.set_syncs(false).ok()?;
        state.callers_in_a_row += 1;
        state.sweeper.count(1);
        let outcome = match file.transaction(self.access, run) {
            Ok(done) => Some(Ok(done)),
            Err(failure) if failure.error.outcome_unknown => Some(Err(failure.error)),
            // The thread tries again.
            Err(_) => None,
        };
        let took = started.elapsed();
        if took > SLOW_OPERATION {
            state.not_before = Some(Instant::now() + took * SLOW_PAUSE_FACTOR);
        }
        outcome
    }
}
