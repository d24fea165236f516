//! Acquires and releases that are made while others are under way share a transaction: most of what
//! one costs the server it costs for the statement, not for the lock.
//!
//! Only what needs no patience is done so. One that would have to wait for somebody else, or that is
//! wrong in any way, is left to be asked for alone.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_postgres::SimpleQueryRow;

use super::client::Client;
use super::error;
use super::sql::Arg;
use super::sql::key::StoredKey;
use crate::error::{Error, Result};
use crate::lock::{LockId, Ttl};

/// With fewer under way each has a session of its own: it is answered sooner.
const MANY: usize = 4;
/// Who comes first waits for all of them.
const MOST: usize = 32;
/// Transactions at a time, so that many share one. One that takes long does not count.
const AT_A_TIME: usize = 2;
const LONG: Duration = Duration::from_millis(5);

/// An acquire.
pub(super) struct Wanted {
    pub stored: StoredKey,
    pub lock_id: LockId,
    pub ttl: Ttl,
}

pub(super) enum Request {
    Acquire(Arc<Wanted>),
    Release(LockId),
}

impl Request {
    fn lock_id(&self) -> &LockId {
        match self {
            Self::Acquire(wanted) => &wanted.lock_id,
            Self::Release(lock_id) => lock_id,
        }
    }

    /// One statement changes a row once.
    fn is_of_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Acquire(one), Self::Acquire(other)) => one.stored.key == other.stored.key,
            _ => self.lock_id() == other.lock_id(),
        }
    }
}

/// Nothing when it has to be asked for alone. It has not been done.
type Answer = Result<Option<SimpleQueryRow>>;

struct Waiting {
    request: Request,
    deadline: Instant,
    answer: oneshot::Sender<Answer>,
}

pub(super) struct Together(Arc<Shared>);

struct Shared {
    client: Client,
    state: Mutex<State>,
    /// The role may not do it.
    forbidden: AtomicBool,
    /// The role may not tell those who wait.
    silent: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    under_way: usize,
    acquires: VecDeque<Waiting>,
    releases: VecDeque<Waiting>,
    transactions: usize,
}

/// A request that is under way.
pub(super) struct UnderWay<'a>(&'a Shared);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.lock().under_way -= 1;
    }
}

impl Together {
    pub(super) fn new(client: Client, silent: Arc<AtomicBool>) -> Self {
        Self(Arc::new(Shared {
            client,
            state: Mutex::default(),
            forbidden: AtomicBool::new(false),
            silent,
        }))
    }

    /// Counts it, for as long as the guard lives.
    pub(super) fn enter(&self) -> UnderWay<'_> {
        self.0.lock().under_way += 1;
        UnderWay(&self.0)
    }

    pub(super) async fn ask(&self, request: Request, deadline: Instant) -> Answer {
        let Some(answered) = self.join(request, deadline) else {
            return Ok(None);
        };
        let lost = || Error::internal("The operation failed unexpectedly").outcome_unknown();
        answered.await.unwrap_or_else(|_| Err(lost()))
    }

    fn join(&self, request: Request, deadline: Instant) -> Option<oneshot::Receiver<Answer>> {
        if self.0.forbidden.load(Ordering::Relaxed) {
            return None;
        }
        let mut state = self.0.lock();
        if state.under_way <= MANY {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        let queue = match request {
            Request::Acquire(_) => &mut state.acquires,
            Request::Release(_) => &mut state.releases,
        };
        queue.push_back(Waiting {
            request,
            deadline,
            answer,
        });
        if state.transactions < AT_A_TIME {
            self.0.start(&mut state);
        }
        Some(answered)
    }
}

/// One of those at a time. Whoever waits when it ends is served by the next.
struct Server {
    shared: Arc<Shared>,
    counts: bool,
}

impl Server {
    async fn serve(mut self) {
        while let Some(batch) = self.next() {
            let shared = Arc::clone(&self.shared);
            let mut run = pin!(shared.run(batch));
            if timeout(LONG, run.as_mut()).await.is_err() {
                drop(self);
                return run.await;
            }
        }
    }

    /// Nothing when nobody waits any more.
    fn next(&mut self) -> Option<Vec<Waiting>> {
        let mut state = self.shared.lock();
        let batch = state.take();
        if batch.is_empty() {
            state.transactions -= 1;
            self.counts = false;
            return None;
        }
        Some(batch)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.counts {
            let mut state = self.shared.lock();
            state.transactions -= 1;
            if !(state.acquires.is_empty() && state.releases.is_empty()) {
                self.shared.start(&mut state);
            }
        }
    }
}

impl State {
    /// Some who can go together, from where the first of all waits.
    fn take(&mut self) -> Vec<Waiting> {
        let since = |queue: &VecDeque<Waiting>| queue.front().map(|first| first.deadline);
        let queue = match (since(&self.acquires), since(&self.releases)) {
            (Some(acquire), Some(release)) if acquire <= release => &mut self.acquires,
            (Some(_), None) => &mut self.acquires,
            _ => &mut self.releases,
        };
        let mut batch: Vec<Waiting> = Vec::new();
        while batch.len() < MOST
            && let Some(next) = queue.front()
            && !batch
                .iter()
                .any(|taken| taken.request.is_of_the_same(&next.request))
        {
            batch.extend(queue.pop_front());
        }
        batch
    }
}

impl Shared {
    fn start(self: &Arc<Self>, state: &mut State) {
        state.transactions += 1;
        let server = Server {
            shared: Arc::clone(self),
            counts: true,
        };
        tokio::spawn(server.serve());
    }

    async fn run(&self, batch: Vec<Waiting>) {
        let rows = match batch.as_slice() {
            [_alone] => Ok(Vec::new()),
            batch => self.ask(batch).await,
        };
        match rows {
            Ok(rows) => answer(batch, rows),
            Err(error) if error.outcome_unknown => {
                for waiting in batch {
                    waiting.say(Err(error.clone()));
                }
            }
            Err(error) => {
                if error::is_forbidden(&error) && self.silent.load(Ordering::Relaxed) {
                    self.forbidden.store(true, Ordering::Relaxed);
                }
                // It has not been done. Who has no time left to ask again is told why.
                for waiting in batch {
                    let again = self.client.has_time(waiting.deadline);
                    waiting.say(if again { Ok(None) } else { Err(error.clone()) });
                }
            }
        }
    }

    async fn ask(&self, batch: &[Waiting]) -> Result<Vec<SimpleQueryRow>> {
        let statements = self.client.statements();
        let deadline = batch[0].deadline;
        let (mut ids, mut keys, mut ttls, mut user_keys) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for waiting in batch {
            ids.push(waiting.request.lock_id().as_str());
            if let Request::Acquire(wanted) = &waiting.request {
                keys.push(wanted.stored.key.as_str());
                ttls.push(wanted.ttl.ms());
                user_keys.push(wanted.stored.user_key.as_str());
            }
        }
        let ids = Arg::Texts(&ids);
        if keys.is_empty() {
            let release = &statements.release_together;
            let statement = release.statement(self.silent.load(Ordering::Relaxed));
            let args = [ids, Arg::TimeLeft];
            return self.client.rows_by(deadline, &[(statement, &args)]).await;
        }
        let args = [
            Arg::Texts(&keys),
            ids,
            Arg::Ints(&ttls),
            Arg::Texts(&user_keys),
            Arg::TimeLeft,
        ];
        self.client
            .rows_by(deadline, &[(&statements.acquire_together, &args)])
            .await
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn say(self, answer: Answer) {
        // Whoever asked may be gone.
        let _ = self.answer.send(answer);
    }
}

/// Each has the row with its lockId.
fn answer(batch: Vec<Waiting>, mut rows: Vec<SimpleQueryRow>) {
    for waiting in batch {
        let lock_id = waiting.request.lock_id().as_str();
        let is_its = |row: &SimpleQueryRow| row.try_get("lock_id").ok().flatten() == Some(lock_id);
        let row = rows
            .iter()
            .position(is_its)
            .map(|place| rows.swap_remove(place));
        waiting.say(Ok(row));
    }
}
