//! The thread's side: runs all operations that wait in one transaction, so that they share one write to
//! the disk. Callers are answered after the COMMIT.
//!
//! Waiting for the disk and for other processes happens here, and never on a caller's thread.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pause::Pause;
use super::queue::{Arrival, JobQueue};
use super::shared_connection::{ConnectionState, SharedConnection};
use super::transaction::{Failed, transaction};
use super::worker::{Access, Job};
use crate::backend::sqlite::config::Settings;
use crate::backend::sqlite::error::timed_out;
use crate::backend::sqlite::file::{Failure, LockFile};
use crate::error::Error;
use crate::lock::time::system_now_ms;

/// How long callers leave their operations to the thread after several came at once.
const CROWD_TIME: Duration = Duration::from_millis(100);

pub(super) struct Service {
    access: Access,
    settings: Settings,
    connection: Arc<SharedConnection>,
    queue: JobQueue,
    /// When there was last more than one operation to do.
    last_crowd: Option<Instant>,
    /// When opening the file was first found to be busy.
    opening_since: Option<Instant>,
    refreshed: Instant,
}

impl Service {
    pub(super) fn new(
        access: Access,
        settings: Settings,
        connection: Arc<SharedConnection>,
        queue: JobQueue,
    ) -> Self {
        Self {
            access,
            settings,
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
            match self.queue.wait(self.settings.refresh_every) {
                Arrival::Job => self.run_batch(),
                Arrival::Timeout => {}
                Arrival::End => return,
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
        if self.refreshed.elapsed() >= self.settings.refresh_every {
            self.refreshed = Instant::now();
            if let Some(open) = &mut self.connection.lock().open {
                open.refresh();
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
                self.queue.join(batch, syncs);
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
        if self.access == Access::Write
            && let Some(open) = &self.connection.lock().open
        {
            open.write_back_if_due();
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

/// Closes the file, so that callers do not find an open one that nobody would close.
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
