//! Acquires and releases that are made at the same time share a transaction: most of what an
//! operation costs the server is for the statement and the transaction, not for the lock.
//!
//! Only what can be done at once is done in a batch. A request that would have to wait for another
//! session, or that fails, gets no result from its batch and is then made alone.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_postgres::SimpleQueryRow;

use super::connections::{Connections, RequestKind};
use super::error;
use super::sql::Arg;
use super::sql::key::StoredKey;
use crate::error::{Error, Result};
use crate::lock::{HolderLabel, LockId, Ttl};

/// Up to so many requests in flight each use a connection of their own, which answers them sooner.
const BATCH_THRESHOLD: usize = 4;
/// The first of a batch waits for all of them.
const MAX_BATCH: usize = 32;
/// Few batches in flight, so that many requests share one. Slow batches do not count.
const MAX_BATCHES_IN_FLIGHT: usize = 2;
const SLOW_BATCH: Duration = Duration::from_millis(5);

/// A lock to be acquired.
pub(super) struct NewLock {
    pub stored: StoredKey,
    pub lock_id: LockId,
    pub ttl: Ttl,
    pub label: Option<HolderLabel>,
}

pub(super) enum Request {
    Acquire(Arc<NewLock>),
    Release(LockId),
}

impl Request {
    fn lock_id(&self) -> &LockId {
        match self {
            Self::Acquire(lock) => &lock.lock_id,
            Self::Release(lock_id) => lock_id,
        }
    }

    /// Whether both may change the same row, which one statement can do only once.
    fn conflicts_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Acquire(one), Self::Acquire(other)) => one.stored.key == other.stored.key,
            _ => self.lock_id() == other.lock_id(),
        }
    }
}

/// None if the request was not done and has to be made alone.
type Answer = Result<Option<SimpleQueryRow>>;

struct Waiting {
    request: Request,
    deadline: Instant,
    answer: oneshot::Sender<Answer>,
}

pub(super) struct Batches(Arc<Shared>);

struct Shared {
    connections: Connections,
    state: Mutex<State>,
    /// The role may not execute what only batches need.
    forbidden: AtomicBool,
    /// The role may not notify waiters.
    cannot_notify: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    requests_in_flight: usize,
    acquires: VecDeque<Waiting>,
    releases: VecDeque<Waiting>,
    batches_in_flight: usize,
}

/// Counts a request as in flight until this is dropped.
pub(super) struct InFlight<'a>(&'a Shared);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.state.lock().requests_in_flight -= 1;
    }
}

impl Batches {
    pub(super) fn new(connections: Connections, cannot_notify: Arc<AtomicBool>) -> Self {
        Self(Arc::new(Shared {
            connections,
            state: Mutex::default(),
            forbidden: AtomicBool::new(false),
            cannot_notify,
        }))
    }

    pub(super) fn count_in_flight(&self) -> InFlight<'_> {
        self.0.state.lock().requests_in_flight += 1;
        InFlight(&self.0)
    }

    /// Makes the request in a batch. Returns None if it was not done and has to be made alone.
    pub(super) async fn run(&self, request: Request, deadline: Instant) -> Answer {
        let Some(answer) = self.enqueue(request, deadline) else {
            return Ok(None);
        };
        let lost = || Error::internal("The operation failed unexpectedly").outcome_unknown();
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    fn enqueue(&self, request: Request, deadline: Instant) -> Option<oneshot::Receiver<Answer>> {
        if self.0.forbidden.load(Ordering::Relaxed) {
            return None;
        }
        let mut state = self.0.state.lock();
        if state.requests_in_flight <= BATCH_THRESHOLD {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        let queue = match request {
            Request::Acquire(_) => &mut state.acquires,
            Request::Release(_) => &mut state.releases,
        };
        queue.push_back(Waiting {
            request,
            deadline,
            answer: sender,
        });
        if state.batches_in_flight < MAX_BATCHES_IN_FLIGHT {
            self.0.start_runner(&mut state);
        }
        Some(receiver)
    }
}

/// Runs one batch after the other, until nobody waits or one of them is slow.
struct Runner {
    shared: Arc<Shared>,
    is_counted: bool,
}

impl Runner {
    async fn run(mut self) {
        while let Some(batch) = self.next_batch() {
            let shared = Arc::clone(&self.shared);
            let mut run = pin!(shared.run(batch));
            if timeout(SLOW_BATCH, run.as_mut()).await.is_err() {
                // Another runner may take over the requests that wait.
                drop(self);
                return run.await;
            }
        }
    }

    /// Returns None if nobody waits.
    fn next_batch(&mut self) -> Option<Vec<Waiting>> {
        let mut state = self.shared.state.lock();
        let batch = state.take_batch();
        if batch.is_empty() {
            state.batches_in_flight -= 1;
            self.is_counted = false;
            return None;
        }
        Some(batch)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if self.is_counted {
            let mut state = self.shared.state.lock();
            state.batches_in_flight -= 1;
            if !(state.acquires.is_empty() && state.releases.is_empty()) {
                self.shared.start_runner(&mut state);
            }
        }
    }
}

impl State {
    /// Takes requests that can share a statement from the queue with the oldest request.
    fn take_batch(&mut self) -> Vec<Waiting> {
        let oldest = |queue: &VecDeque<Waiting>| queue.front().map(|first| first.deadline);
        let queue = match (oldest(&self.acquires), oldest(&self.releases)) {
            (Some(acquire), Some(release)) if acquire <= release => &mut self.acquires,
            (Some(_), None) => &mut self.acquires,
            _ => &mut self.releases,
        };
        let mut batch: Vec<Waiting> = Vec::new();
        while batch.len() < MAX_BATCH
            && let Some(next) = queue.front()
            && !batch
                .iter()
                .any(|taken| taken.request.conflicts_with(&next.request))
        {
            batch.extend(queue.pop_front());
        }
        batch
    }
}

impl Shared {
    fn start_runner(self: &Arc<Self>, state: &mut State) {
        state.batches_in_flight += 1;
        let runner = Runner {
            shared: Arc::clone(self),
            is_counted: true,
        };
        tokio::spawn(runner.run());
    }

    /// Runs a batch, even one of a single request: the next requests gather meanwhile.
    async fn run(&self, batch: Vec<Waiting>) {
        match self.send(&batch).await {
            Ok(rows) => answer_all(batch, rows),
            Err(error) if error.outcome_unknown => {
                for waiting in batch {
                    waiting.answer(Err(error.clone()));
                }
            }
            Err(error) => {
                let cannot_notify = self.cannot_notify.load(Ordering::Relaxed);
                if error::is_forbidden(&error) && cannot_notify {
                    self.forbidden.store(true, Ordering::Relaxed);
                }
                // Nothing was done. Each request is made alone, unless that cannot succeed either.
                for waiting in batch {
                    let retry = error::is_about_request(&error)
                        && self.connections.has_time(waiting.deadline);
                    waiting.answer(if retry { Ok(None) } else { Err(error.clone()) });
                }
            }
        }
    }

    async fn send(&self, batch: &[Waiting]) -> Result<Vec<SimpleQueryRow>> {
        let statements = self.connections.statements();
        let deadline = batch[0].deadline;
        let (mut ids, mut keys, mut ttls, mut user_keys) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // All acquires of a backend have the same label.
        let mut label = None;
        for waiting in batch {
            ids.push(waiting.request.lock_id().as_str());
            if let Request::Acquire(lock) = &waiting.request {
                keys.push(lock.stored.key.as_str());
                ttls.push(lock.ttl.ms());
                user_keys.push(lock.stored.user_key.as_str());
                label = lock.label.as_ref();
            }
        }
        let ids = Arg::Texts(&ids);
        if keys.is_empty() {
            let removal = &statements.release_batch;
            let statement = removal.statement(self.cannot_notify.load(Ordering::Relaxed));
            let args = [ids, Arg::TimeLeft];
            let call = &[(statement, &args[..])];
            return self
                .connections
                .run_unless_blocked(RequestKind::Release, deadline, call)
                .await;
        }
        let args = [
            Arg::Texts(&keys),
            ids,
            Arg::Ints(&ttls),
            Arg::Texts(&user_keys),
            Arg::TimeLeft,
            Arg::Text(label.map_or("", HolderLabel::as_str)),
        ];
        let args = &args[..if label.is_some() { 6 } else { 5 }];
        let call = &[(&statements.acquire_batch, args)];
        self.connections
            .run_unless_blocked(RequestKind::Acquire, deadline, call)
            .await
    }
}

impl Waiting {
    fn answer(self, answer: Answer) {
        // The caller may have gone.
        let _ = self.answer.send(answer);
    }
}

/// Answers each request with the row that has its lockId.
fn answer_all(batch: Vec<Waiting>, mut rows: Vec<SimpleQueryRow>) {
    for waiting in batch {
        let lock_id = waiting.request.lock_id().as_str();
        let is_its = |row: &SimpleQueryRow| row.try_get("lock_id").ok().flatten() == Some(lock_id);
        let index = rows.iter().position(is_its);
        let row = index.map(|index| rows.swap_remove(index));
        waiting.answer(Ok(row));
    }
}
