//! The thread's side: runs all operations that wait in one transaction, so that they share one write to
//! the disk. Callers are answered after the COMMIT.
//!
//! Waiting for the disk and for other processes happens here, and never on a caller's thread.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use super::pause::Pause;
use super::shared_connection::{ConnectionState, SharedConnection};
use super::transaction::{Failed, transaction};
use super::worker::{Access, Job};
use crate::backend::sqlite::config::Settings;
use crate::backend::sqlite::error::timed_out;
use crate::backend::sqlite::file::{Failure, LockFile};
use crate::error::Error;
use crate::lock::time::system_now_ms;

/// How many operations share a transaction at most, so that other processes get their turn.
const MAX_BATCH: usize = 256;
/// How long callers leave their operations to the thread after several came at once.
const CROWD_TIME: Duration = Duration::from_millis(100);
/// How long the thread stays awake for the next operation.
const SPIN_TIME: Duration = Duration::from_micros(200);
/// How long a batch waits for more operations at most.
const MAX_GATHER_TIME: Duration = Duration::from_micros(500);

pub(super) struct Service {
    access: Access,
    settings: Settings,
    connection: Arc<SharedConnection>,
    incoming: Receiver<Job>,
    /// Operations that are not in a transaction yet.
    waiting: VecDeque<Job>,
    /// Whether the last operation came soon after the one before.
    is_awake: bool,
    /// When there was last more than one operation to do.
    last_crowd: Option<Instant>,
    /// Whether the last batch passed over operations that wait for the disk.
    syncs_next: bool,
    /// The last transaction that waited for the disk.
    last_sync: Sync,
    /// When opening the file was first found to be busy.
    opening_since: Option<Instant>,
    refreshed: Instant,
}

#[derive(Default)]
struct Sync {
    operations: usize,
    took: Duration,
}

impl Service {
    pub(super) fn new(
        access: Access,
        settings: Settings,
        connection: Arc<SharedConnection>,
        incoming: Receiver<Job>,
    ) -> Self {
        Self {
            access,
            settings,
            connection,
            incoming,
            waiting: VecDeque::new(),
            is_awake: false,
            last_crowd: None,
            syncs_next: false,
            last_sync: Sync::default(),
            opening_since: None,
            refreshed: Instant::now(),
        }
    }

    /// Runs until no more operations can come.
    pub(super) fn serve(&mut self) {
        loop {
            if self.waiting.is_empty() {
                match self.next_job() {
                    Some(job) => self.waiting.push_back(job),
                    None => return,
                }
            }
            let mut batch = self.next_batch();
            match self.complete(&mut batch, true) {
                Err(error) if batch.len() > 1 && !error.outcome_unknown => {
                    // One operation's failure must not fail the others: each gets its own transaction.
                    for job in batch {
                        let mut alone = vec![job];
                        let failure = self.complete(&mut alone, false).err();
                        answer(alone, failure.as_ref());
                    }
                }
                result => {
                    let is_idle = self.is_idle(&batch, result.is_ok());
                    self.connection.set_idle(is_idle);
                    answer(batch, result.err().as_ref());
                }
            }
            self.write_back();
            self.refresh_if_due();
        }
    }

    /// Returns the next operation. None if no more can come. While operations follow quickly the thread
    /// stays awake, because waking it takes longer than running one.
    fn next_job(&mut self) -> Option<Job> {
        let since = Instant::now();
        while self.is_awake && since.elapsed() < SPIN_TIME {
            match self.incoming.try_recv() {
                Ok(job) => return Some(job),
                Err(TryRecvError::Empty) => thread::yield_now(),
                Err(TryRecvError::Disconnected) => return None,
            }
        }
        let job = self.wait_for_job()?;
        self.is_awake = since.elapsed() < SPIN_TIME;
        Some(job)
    }

    /// Waits for an operation. None if no more can come.
    fn wait_for_job(&mut self) -> Option<Job> {
        loop {
            match self.incoming.recv_timeout(self.settings.refresh_every) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Timeout) => self.refresh_if_due(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Touches the file, because one in a temporary directory is deleted if it looks unused.
    fn refresh_if_due(&mut self) {
        if self.refreshed.elapsed() >= self.settings.refresh_every {
            self.refreshed = Instant::now();
            if let Some(open) = &mut self.connection.lock().open {
                open.refresh();
            }
        }
    }

    /// Returns the operations of the next transaction. Those that need not wait for the disk go first,
    /// but not twice in a row.
    fn next_batch(&mut self) -> Vec<Job> {
        self.waiting.extend(self.incoming.try_iter());
        if self.waiting.iter().all(|job| job.syncs) {
            self.gather();
        }
        let some_sync = self.waiting.iter().any(|job| job.syncs);
        let all_sync = self.waiting.iter().all(|job| job.syncs);
        let syncs = all_sync || some_sync && self.syncs_next;
        self.syncs_next = some_sync && !syncs;
        let mut batch = Vec::new();
        for _ in 0..self.waiting.len() {
            match self.waiting.pop_front() {
                Some(job) if job.syncs == syncs && batch.len() < MAX_BATCH => batch.push(job),
                Some(job) => self.waiting.push_back(job),
                None => {}
            }
        }
        batch
    }

    /// Waits a little for more operations. Callers that were answered together tend to come back
    /// together, and one that misses a transaction waits for a whole one.
    fn gather(&mut self) {
        let until = Instant::now() + (self.last_sync.took / 8).min(MAX_GATHER_TIME);
        while self.waiting.len() < self.last_sync.operations {
            let left = until.saturating_duration_since(Instant::now());
            match self.incoming.recv_timeout(left) {
                Ok(job) => self.waiting.push_back(job),
                Err(_) => return,
            }
        }
    }

    /// Runs the batch in one transaction, waiting for other processes as long as deadlines allow.
    /// Operations whose deadline passes are answered and leave the batch.
    fn complete(&mut self, batch: &mut Vec<Job>, join: bool) -> Result<(), Error> {
        let mut pause = Pause::default();
        loop {
            match self.transaction(batch, join) {
                Ok(()) => return Ok(()),
                Err(Failure::Failed(error)) => return Err(error),
                Err(Failure::Busy(path)) => {
                    refuse_late(batch, &path);
                    if batch.is_empty() {
                        return Ok(());
                    }
                    pause.wait();
                }
            }
        }
    }

    fn transaction(&mut self, batch: &mut Vec<Job>, join: bool) -> Result<(), Failure> {
        let connection = Arc::clone(&self.connection);
        let mut state = connection.lock();
        let open = state.open.take_if(|open| open.is_current());
        let mut open = match open {
            Some(open) => open,
            None => {
                state.open = None;
                self.reopen()?
            }
        };
        let done = self.run(&mut open, &mut state, batch, join);
        let result = done.as_ref().copied().map_err(|failed| {
            if failed.is_busy() {
                Failure::Busy(open.path.clone())
            } else {
                Failure::Failed(failed.mapped(&open.path))
            }
        });
        let usable = done.map_or_else(|failed| failed.is_busy(), |()| true);
        if usable && open.db.is_autocommit() {
            state.open = Some(open);
        }
        result
    }

    fn run(
        &mut self,
        open: &mut LockFile,
        state: &mut ConnectionState,
        batch: &mut Vec<Job>,
        join: bool,
    ) -> Result<(), Failed> {
        let syncs = batch.iter().any(|job| job.syncs);
        open.set_syncs(syncs)?;
        let committing = transaction(&open.db, self.access, || {
            if join {
                // The wait for other processes is over, and more operations may have come meanwhile.
                self.join(batch, syncs);
            }
            refuse_late(batch, &open.path);
            let now_ms = system_now_ms();
            for job in batch.iter_mut() {
                job.work.run(&open.db, now_ms)?;
            }
            if join && self.access == Access::Write {
                state.sweeper.count(batch.len());
                state.sweeper.sweep_if_due(&open.db, now_ms)?;
            }
            Ok(Instant::now())
        })?;
        if syncs {
            self.last_sync = Sync {
                operations: batch.len(),
                took: committing.elapsed(),
            };
        }
        Ok(())
    }

    /// Whether callers may run their operations themselves from now on. Many at once are faster in one
    /// transaction, and those of a crowd often come one by one.
    fn is_idle(&mut self, done: &[Job], succeeded: bool) -> bool {
        self.waiting.extend(self.incoming.try_iter());
        if done.len() + self.waiting.len() > 1 {
            self.last_crowd = Some(Instant::now());
        }
        succeeded
            && self
                .last_crowd
                .is_none_or(|last| last.elapsed() >= CROWD_TIME)
    }

    /// Writes the WAL back. Called after the answers, because it waits for the disk.
    fn write_back(&self) {
        if self.access == Access::Write
            && let Some(open) = &self.connection.lock().open
        {
            open.write_back_if_due();
        }
    }

    fn join(&mut self, batch: &mut Vec<Job>, syncs: bool) {
        for job in self.incoming.try_iter() {
            if job.syncs == syncs && batch.len() < MAX_BATCH {
                batch.push(job);
            } else {
                self.waiting.push_back(job);
            }
        }
    }

    fn reopen(&mut self) -> Result<LockFile, Failure> {
        let opened = LockFile::open(&self.settings);
        if let Err(Failure::Busy(path)) = &opened {
            let since = *self.opening_since.get_or_insert_with(Instant::now);
            if since.elapsed() < self.settings.connect_timeout {
                return opened;
            }
            self.opening_since = None;
            return Err(Failure::Failed(timed_out(path)));
        }
        self.opening_since = None;
        opened
    }
}

/// Closes the file: callers must not find one that nobody would close.
impl Drop for Service {
    fn drop(&mut self) {
        self.connection.lock().open = None;
    }
}

fn answer(batch: Vec<Job>, failure: Option<&Error>) {
    for job in batch {
        job.work.answer(failure);
    }
}

fn refuse_late(batch: &mut Vec<Job>, path: &Path) {
    let now = Instant::now();
    let late: Vec<Job> = batch.extract_if(.., |job| job.deadline <= now).collect();
    if !late.is_empty() {
        answer(late, Some(&timed_out(path)));
    }
}
