//! The thread's side: runs all operations that wait in one transaction, so that they share one write to
//! the disk. Callers are answered after the COMMIT.
//!
//! Waiting for the disk and for other processes happens here, and never on a caller's thread.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use super::queue::JobQueue;
use super::shared_connection::SharedConnection;
use super::{Access, Job};
use crate::backend::sqlite::error::{Failure, timed_out};
use crate::backend::sqlite::file::LockFile;
use crate::backend::sqlite::sweep::Sweeper;
use crate::error::Error;

/// How long callers leave their operations to the thread after several came at once.
const CROWD_TIME: Duration = Duration::from_millis(100);
/// How often the thread only yields before it pauses.
const YIELDS: u32 = 3;
const SHORTEST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

pub(super) struct Service {
    connection: Arc<SharedConnection>,
    queue: JobQueue,
    /// When there was last more than one operation to do.
    last_crowd: Option<Instant>,
    /// When opening the file was first found to be busy.
    opening_since: Option<Instant>,
    refreshed: Instant,
}

impl Service {
    pub(super) fn new(connection: Arc<SharedConnection>, queue: JobQueue) -> Self {
        Self {
            connection,
            queue,
            last_crowd: None,
            opening_since: None,
            refreshed: Instant::now(),
        }
    }

    /// Runs until no more operations can come.
    pub(super) fn serve(&mut self) {
        loop {
            match self.queue.wait(self.connection.settings.refresh_every) {
                Ok(()) => self.run_batch(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.refresh_if_due();
        }
    }

    fn run_batch(&mut self) {
        let mut batch = self.queue.next_batch();
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
    }

    /// Touches the file, because one in a temporary directory is deleted if it looks unused.
    fn refresh_if_due(&mut self) {
        if self.refreshed.elapsed() >= self.connection.settings.refresh_every {
            self.refreshed = Instant::now();
            if let Some(file) = &mut self.connection.lock().file {
                file.refresh();
            }
        }
    }

    /// Runs the batch in one transaction, waiting for other processes as long as deadlines allow.
    /// Operations whose deadline passes are answered and leave the batch.
    fn complete(&mut self, batch: &mut Vec<Job>, join: bool) -> Result<(), Error> {
        let mut attempts = 0;
        loop {
            match self.transaction(batch, join) {
                Err(failure) if failure.is_busy => {
                    refuse_late(batch, || failure.error.clone());
                    if batch.is_empty() {
                        return Ok(());
                    }
                    pause(attempts);
                    attempts += 1;
                }
                done => return done.map_err(|failure| failure.error),
            }
        }
    }

    fn transaction(&mut self, batch: &mut Vec<Job>, join: bool) -> Result<(), Failure> {
        let connection = Arc::clone(&self.connection);
        let mut state = connection.lock();
        let mut file = match state.file.take_if(|file| file.is_usable()) {
            Some(file) => file,
            None => {
                state.file = None;
                self.open()?
            }
        };
        let done = self.run(&mut file, &mut state.sweeper, batch, join);
        state.file = Some(file).filter(LockFile::is_usable);
        done
    }

    fn run(
        &mut self,
        file: &mut LockFile,
        sweeper: &mut Sweeper,
        batch: &mut Vec<Job>,
        join: bool,
    ) -> Result<(), Failure> {
        let syncs = batch.iter().any(|job| job.syncs);
        file.set_syncs(syncs)?;
        let committing = file.transaction(self.connection.access, |db, now_ms| {
            if join {
                // The wait for other processes is over, and more operations may have come meanwhile.
                self.queue.join(batch, syncs);
            }
            refuse_late(batch, || timed_out(&file.path));
            for job in batch.iter_mut() {
                job.work.run(db, now_ms)?;
            }
            if join && self.connection.access == Access::Write {
                sweeper.count(batch.len());
                sweeper.sweep_if_due(db, now_ms)?;
            }
            Ok(Instant::now())
        })?;
        if syncs {
            self.queue.synced(batch.len(), committing.elapsed());
        }
        Ok(())
    }

    /// Whether callers may run their operations themselves from now on. Many at once are faster in one
    /// transaction, and those of a crowd often come one by one.
    fn is_idle(&mut self, done: &[Job], succeeded: bool) -> bool {
        if done.len() + self.queue.len() > 1 {
            self.last_crowd = Some(Instant::now());
        }
        succeeded
            && self
                .last_crowd
                .is_none_or(|last| last.elapsed() >= CROWD_TIME)
    }

    /// Writes the WAL back. Called after the answers, because it waits for the disk.
    fn write_back(&self) {
        if self.connection.access == Access::Write
            && let Some(file) = &self.connection.lock().file
        {
            file.write_back_if_due();
        }
    }

    fn open(&mut self) -> Result<LockFile, Failure> {
        let since = self.opening_since.take().unwrap_or_else(Instant::now);
        LockFile::open(&self.connection.settings).map_err(|failure| {
            let is_busy =
                failure.is_busy && since.elapsed() < self.connection.settings.connect_timeout;
            self.opening_since = is_busy.then_some(since);
            Failure { is_busy, ..failure }
        })
    }
}

/// Closes the file, so that callers do not find an open one that nobody would close.
impl Drop for Service {
    fn drop(&mut self) {
        self.connection.lock().file = None;
    }
}

fn answer(batch: Vec<Job>, failure: Option<&Error>) {
    for job in batch {
        job.work.answer(failure);
    }
}

/// Answers the operations that nobody waits for any more.
fn refuse_late(batch: &mut Vec<Job>, error: impl FnOnce() -> Error) {
    let now = Instant::now();
    let late: Vec<Job> = batch.extract_if(.., |job| job.deadline <= now).collect();
    if !late.is_empty() {
        answer(late, Some(&error()));
    }
}

/// Waits for another process to finish its write, which mostly takes microseconds and sometimes an fsync.
fn pause(attempts: u32) {
    if attempts < YIELDS {
        thread::yield_now();
        return;
    }
    let doubled = SHORTEST_PAUSE.saturating_mul(1 << (attempts - YIELDS).min(8));
    // Random, so that waiting processes do not all try again at once.
    let share = rand::random_range(0.5..1.0);
    thread::sleep(doubled.min(LONGEST_PAUSE).mul_f64(share));
}
