//! The thread's side: takes all operations that wait and runs them in one transaction, so that many
//! share one write to the disk. Answers are given after the COMMIT.
//!
//! Waiting, for the disk and for other processes, happens here and never on a caller's thread.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::pause::Pause;
use super::worker::{Access, Job};
use crate::backend::sqlite::config::Settings;
use crate::backend::sqlite::error::{is_busy, map, surely_not_committed, timed_out};
use crate::backend::sqlite::file::{Failure, LockFile};
use crate::backend::sqlite::sweep::Sweeper;
use crate::error::Error;
use crate::lock::time::system_now_ms;

/// More operations than this do not share a transaction, so that other processes get their turn.
const MAX_BATCH: usize = 256;
const LONGEST_GATHER: Duration = Duration::from_micros(500);

pub(super) struct Service {
    access: Access,
    settings: Settings,
    incoming: Receiver<Job>,
    /// What came in and is not in a transaction yet.
    waiting: VecDeque<Job>,
    /// Some that wait for the disk were passed over by the last batch.
    syncs_next: bool,
    open: Option<LockFile>,
    sweeper: Sweeper,
    /// The last transaction that waited for the disk.
    last_sync: Sync,
    /// When opening the file was first found to be busy.
    opening_since: Option<Instant>,
}

#[derive(Default)]
struct Sync {
    operations: usize,
    took: Duration,
}

impl Service {
    pub(super) fn new(access: Access, settings: Settings, incoming: Receiver<Job>) -> Self {
        Self {
            access,
            settings,
            incoming,
            waiting: VecDeque::new(),
            syncs_next: false,
            open: None,
            sweeper: Sweeper::new(),
            last_sync: Sync::default(),
            opening_since: None,
        }
    }

    /// Until no more operations can come.
    pub(super) fn serve(&mut self) {
        loop {
            if self.waiting.is_empty() {
                match self.incoming.recv() {
                    Ok(job) => self.waiting.push_back(job),
                    Err(_) => return,
                }
            }
            let mut batch = self.next_batch();
            match self.complete(&mut batch, true) {
                Err(error) if batch.len() > 1 && !error.outcome_unknown => {
                    // One operation's failure must not be another's: each for itself.
                    for job in batch {
                        let mut alone = vec![job];
                        let failure = self.complete(&mut alone, false).err();
                        answer(alone, failure.as_ref());
                    }
                }
                result => answer(batch, result.err().as_ref()),
            }
        }
    }

    /// Those that need not wait for the disk go first, but not twice in a row before the others.
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

    /// Callers that were answered together tend to come back together. The first of them waits for
    /// the others, a little: missing a transaction costs them a whole one.
    fn gather(&mut self) {
        let until = Instant::now() + (self.last_sync.took / 8).min(LONGEST_GATHER);
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
        let mut open = match self.open.take_if(|open| open.is_current()) {
            Some(open) => open,
            None => self.reopen()?,
        };
        let done = self.run(&mut open, batch, join);
        if done.is_err() && !open.db.is_autocommit() {
            // If even this fails the connection is dropped below, which rolls back too.
            let _ = open.db.execute_batch("ROLLBACK");
        }
        let keep = match &done {
            Ok(()) => true,
            Err((error, _)) => is_busy(error) && open.db.is_autocommit(),
        };
        let result = done.map_err(|(error, committing)| {
            if is_busy(&error) {
                return Failure::Busy(open.path.clone());
            }
            let mapped = map(&error, &open.path);
            Failure::Failed(if committing && !surely_not_committed(&error) {
                mapped.outcome_unknown()
            } else {
                mapped
            })
        });
        self.open = keep.then_some(open);
        result
    }

    /// The flag of the error: the COMMIT was under way.
    fn run(
        &mut self,
        open: &mut LockFile,
        batch: &mut Vec<Job>,
        join: bool,
    ) -> Result<(), (rusqlite::Error, bool)> {
        let before = |error| (error, false);
        let begin = match self.access {
            Access::Write => "BEGIN IMMEDIATE",
            Access::Read => "BEGIN",
        };
        let syncs = batch.iter().any(|job| job.syncs);
        open.set_syncs(syncs).map_err(before)?;
        execute(&open.db, begin).map_err(before)?;
        if join {
            // Now that the wait for other processes is over.
            self.join(batch, syncs);
        }
        refuse_late(batch, &open.path);
        let now_ms = system_now_ms();
        for job in batch.iter_mut() {
            job.work.run(&open.db, now_ms).map_err(before)?;
        }
        if join && self.access == Access::Write && self.sweeper.is_due(batch.len()) {
            self.sweeper.sweep(&open.db, now_ms).map_err(before)?;
        }
        let committing = Instant::now();
        execute(&open.db, "COMMIT").map_err(|error| (error, true))?;
        if syncs {
            self.last_sync = Sync {
                operations: batch.len(),
                took: committing.elapsed(),
            };
        }
        Ok(())
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
        self.open = None;
        let opened = LockFile::open(self.settings.path.as_deref());
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

fn execute(db: &Connection, statement: &str) -> rusqlite::Result<()> {
    db.prepare_cached(statement)?.execute([]).map(drop)
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
