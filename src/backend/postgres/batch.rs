//! Acquires and releases that are made at the same time share a transaction: most of what an
//! operation costs the server is for the statement and the transaction, not for the lock.
//!
//! Only what can be done at once is done in a batch. A request that would have to wait for another
//! session, or that fails, is then made alone.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_postgres::SimpleQueryRow;

use super::acquire::{NewLock, acquire_in_turn, take_row};
use super::backend::unexpected;
use super::connections::{Connections, RequestKind};
use super::error;
use super::sql::{Arg, Statement, Statements};
use crate::error::{Error, Result};
use crate::lock::LockId;

/// Up to so many requests in flight each use a connection of their own, which answers them sooner.
const BATCH_THRESHOLD: usize = 4;
/// The first of a batch waits for all of them.
const MAX_BATCH: usize = 32;
/// Few batches in flight, so that many requests share one. Slow batches do not count.
const MAX_BATCHES_IN_FLIGHT: usize = 2;
const SLOW_BATCH: Duration = Duration::from_millis(5);

#[derive(Clone)]
pub(super) enum Request {
    Acquire(Arc<NewLock>),
    Release(LockId),
}

impl Request {
    fn kind(&self) -> RequestKind {
        match self {
            Self::Acquire(_) => RequestKind::Acquire,
            Self::Release(_) => RequestKind::Release,
        }
    }

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

    /// Returns the statement that makes these requests, which are of one kind, and its arguments.
    fn call<'a>(all: &[&'a Self], statements: &'a Statements) -> (&'a Statement, Vec<Arg<'a>>) {
        let (mut locks, mut released) = (Vec::new(), Vec::new());
        for request in all {
            match request {
                Self::Acquire(lock) => locks.push(&**lock),
                Self::Release(lock_id) => released.push(lock_id.as_str()),
            }
        }
        match released.is_empty() {
            true => (&statements.acquire, NewLock::args(&locks)),
            false => (
                &statements.release,
                vec![Arg::Texts(released), Arg::TimeLeft],
            ),
        }
    }
}

/// The row of a request. None if it was not done in the batch and has to be made alone.
type Answer = Option<Result<SimpleQueryRow>>;

/// A request in a queue.
struct Waiting {
    request: Request,
    deadline: Instant,
    answer: oneshot::Sender<Answer>,
}

#[derive(Clone)]
pub(super) struct Batches(Arc<Shared>);

struct Shared {
    connections: Arc<Connections>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    requests_in_flight: usize,
    acquires: VecDeque<Waiting>,
    releases: VecDeque<Waiting>,
    batches_in_flight: usize,
}

impl Batches {
    pub(super) fn new(connections: Arc<Connections>) -> Self {
        Self(Arc::new(Shared {
            connections,
            state: Mutex::default(),
        }))
    }

    /// Makes the request, in a batch if many are in flight. Returns its row.
    pub(super) async fn run(&self, request: Request, deadline: Instant) -> Result<SimpleQueryRow> {
        self.0.state.lock().requests_in_flight += 1;
        let answer = match self.enqueue(&request, deadline) {
            Some(receiver) => receiver.await.unwrap_or_else(|_| Some(Err(lost()))),
            None => None,
        };
        let row = match answer {
            Some(row) => row,
            None => self.run_alone(&request, deadline).await,
        };
        self.0.state.lock().requests_in_flight -= 1;
        row
    }

    async fn run_alone(&self, request: &Request, deadline: Instant) -> Result<SimpleQueryRow> {
        let connections = &self.0.connections;
        if let Request::Acquire(lock) = request {
            return acquire_in_turn(connections, lock, deadline).await;
        }
        let (statement, args) = Request::call(&[request], connections.statements());
        let call = &[(statement, &args[..])];
        let mut rows = connections.send(request.kind(), deadline, call).await?;
        rows.pop().ok_or_else(unexpected)
    }

    /// Returns None if few requests are in flight.
    fn enqueue(&self, request: &Request, deadline: Instant) -> Option<oneshot::Receiver<Answer>> {
        let mut state = self.0.state.lock();
        if state.requests_in_flight <= BATCH_THRESHOLD {
            return None;
        }
        let (answer, receiver) = oneshot::channel();
        let queue = match request {
            Request::Acquire(_) => &mut state.acquires,
            Request::Release(_) => &mut state.releases,
        };
        queue.push_back(Waiting {
            request: request.clone(),
            deadline,
            answer,
        });
        self.start_runner(&mut state);
        Some(receiver)
    }

    /// Starts to run batches, if there are requests for another one.
    fn start_runner(&self, state: &mut State) {
        let is_needed = !(state.acquires.is_empty() && state.releases.is_empty());
        if is_needed && state.batches_in_flight < MAX_BATCHES_IN_FLIGHT {
            state.batches_in_flight += 1;
            tokio::spawn(self.clone().run_batches());
        }
    }

    /// Runs one batch after the other, until nobody waits or one of them is slow. A batch may consist of
    /// a single request: the next requests gather meanwhile.
    async fn run_batches(self) {
        loop {
            let batch = {
                let mut state = self.0.state.lock();
                let batch = state.take_batch();
                if batch.is_empty() {
                    state.batches_in_flight -= 1;
                    return;
                }
                batch
            };
            let mut run = pin!(self.0.run_batch(batch));
            if timeout(SLOW_BATCH, run.as_mut()).await.is_err() {
                {
                    let mut state = self.0.state.lock();
                    state.batches_in_flight -= 1;
                    self.start_runner(&mut state);
                }
                return run.await;
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
    async fn run_batch(&self, batch: Vec<Waiting>) {
        let mut outcome = self.send(&batch).await;
        for Waiting {
            request,
            deadline,
            answer,
        } in batch
        {
            let answer_of_request = match &mut outcome {
                Ok(rows) => take_row(rows, request.lock_id()).map(Ok),
                // Nothing was done, and alone the request may succeed.
                Err(error)
                    if !error.outcome_unknown
                        && error::is_about_request(error)
                        && self.connections.has_time(deadline) =>
                {
                    None
                }
                Err(error) => Some(Err(error.clone())),
            };
            // The caller may have gone.
            let _ = answer.send(answer_of_request);
        }
    }

    async fn send(&self, batch: &[Waiting]) -> Result<Vec<SimpleQueryRow>> {
        let requests: Vec<_> = batch.iter().map(|waiting| &waiting.request).collect();
        let (statement, args) = Request::call(&requests, self.connections.statements());
        let Some(Waiting {
            request, deadline, ..
        }) = batch.first()
        else {
            return Ok(Vec::new());
        };
        self.connections
            .try_to_send(request.kind(), &mut deadline.clone(), &[(statement, &args)])
            .await
    }
}

fn lost() -> Error {
    Error::internal("The operation failed unexpectedly").outcome_unknown()
}
