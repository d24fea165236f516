//! The operations that wait for the thread, and the choice of those that share its next transaction.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::Job;

/// How many operations share a transaction at most, so that other processes get their turn.
const MAX_BATCH: usize = 256;
/// How long the thread stays awake for the next operation.
const SPIN_TIME: Duration = Duration::from_micros(200);
/// How long a batch waits for more operations at most.
const MAX_GATHER_TIME: Duration = Duration::from_micros(500);

pub(super) struct JobQueue {
    incoming: Receiver<Job>,
    /// Operations that are not in a transaction yet.
    waiting: VecDeque<Job>,
    /// Whether the last operation came soon after the one before.
    is_awake: bool,
    /// Whether the last batch passed over operations that wait for the disk.
    syncs_next: bool,
    /// How many operations the last transaction had that waited for the disk, and how long it waited.
    last_sync: (usize, Duration),
}

impl JobQueue {
    pub(super) fn new(incoming: Receiver<Job>) -> Self {
        Self {
            incoming,
            waiting: VecDeque::new(),
            is_awake: false,
            syncs_next: false,
            last_sync: (0, Duration::ZERO),
        }
    }

    /// Waits until there is an operation. While operations follow quickly the thread stays awake, because
    /// waking it takes longer than running one.
    pub(super) fn wait(&mut self, max_wait: Duration) -> Result<(), RecvTimeoutError> {
        let since = Instant::now();
        while self.len() == 0 && self.is_awake && since.elapsed() < SPIN_TIME {
            thread::yield_now();
        }
        if self.waiting.is_empty() {
            let job = self.incoming.recv_timeout(max_wait);
            self.is_awake = since.elapsed() < SPIN_TIME;
            self.waiting.push_back(job?);
        }
        Ok(())
    }

    /// Returns the number of operations that have come and are not in a transaction yet.
    pub(super) fn len(&mut self) -> usize {
        self.receive();
        self.waiting.len()
    }

    /// Takes the operations of the next transaction. Those that need not wait for the disk go first, but
    /// not twice in a row.
    pub(super) fn next_batch(&mut self) -> Vec<Job> {
        self.receive();
        if self.waiting.iter().all(|job| job.syncs) {
            self.gather();
        }
        let some_sync = self.waiting.iter().any(|job| job.syncs);
        let all_sync = self.waiting.iter().all(|job| job.syncs);
        let syncs = all_sync || some_sync && self.syncs_next;
        self.syncs_next = some_sync && !syncs;
        let mut batch = Vec::new();
        self.fill(&mut batch, syncs);
        batch
    }

    /// Adds the operations to the batch that have come since it was taken.
    pub(super) fn join(&mut self, batch: &mut Vec<Job>, syncs: bool) {
        self.receive();
        self.fill(batch, syncs);
    }

    /// Reports how long a transaction with so many operations waited for the disk.
    pub(super) fn synced(&mut self, operations: usize, took: Duration) {
        self.last_sync = (operations, took);
    }

    fn receive(&mut self) {
        self.waiting.extend(self.incoming.try_iter());
    }

    fn fill(&mut self, batch: &mut Vec<Job>, syncs: bool) {
        for _ in 0..self.waiting.len() {
            match self.waiting.pop_front() {
                Some(job) if job.syncs == syncs && batch.len() < MAX_BATCH => batch.push(job),
                Some(job) => self.waiting.push_back(job),
                None => {}
            }
        }
    }

    /// Waits a little for more operations. Callers that were answered together tend to come back
    /// together, and one that misses a transaction waits for a whole one.
    fn gather(&mut self) {
        let (last_operations, last_took) = self.last_sync;
        let until = Instant::now() + (last_took / 8).min(MAX_GATHER_TIME);
        while self.waiting.len() < last_operations {
            let left = until.saturating_duration_since(Instant::now());
            match self.incoming.recv_timeout(left) {
                Ok(job) => self.waiting.push_back(job),
                Err(_) => return,
            }
        }
    }
}
