//! The operations of a backend as JavaScript calls them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use napi::bindgen_prelude::Either;
use napi_derive::napi;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::bridge::{Completions, Pending};
use super::functions;
use super::reply::{self, Reply};
use crate::backend::LookupQuery;
use crate::client::parked::{Outside, Parked};
use crate::client::{Client, Hold, Settled, WaitPolicy};
use crate::error::{Error, Result};
use crate::lock::{Key, LockId, Ttl};

/// A reply, or the id under which it will come.
#[napi]
pub type Answer = Either<String, f64>;

/// What an operation ends with: the reply and, sometimes, work that goes on after it.
struct Outcome {
    reply: Reply,
    undo: Option<BoxFuture<'static, ()>>,
}

impl From<String> for Outcome {
    fn from(text: String) -> Self {
        Self {
            reply: text.into(),
            undo: None,
        }
    }
}

impl Outcome {
    fn of<T>(settled: Settled<T>, ok: impl FnOnce(T) -> Reply) -> Self {
        Self {
            reply: reply::of(settled.result, ok),
            undo: settled.undo,
        }
    }
}

#[napi]
pub struct NativeBackend {
    client: Arc<Client>,
    completions: Arc<Completions>,
    runtime: &'static Runtime,
}

impl NativeBackend {
    pub fn new(
        client: Arc<Client>,
        completions: Arc<Completions>,
        runtime: &'static Runtime,
    ) -> Self {
        Self {
            client,
            completions,
            runtime,
        }
    }

    fn start(
        &self,
        operation: impl Future<Output = Outcome> + Send + 'static,
        stop: Option<CancellationToken>,
    ) -> Answer {
        self.start_as(Outside::Runtime, operation, stop)
    }

    /// An operation that is a single call of the backend.
    fn start_single(
        &self,
        operation: impl Future<Output = Outcome> + Send + 'static,
        stop: Option<CancellationToken>,
    ) -> Answer {
        let outside = if self.client.has_own_threads() {
            Outside::Waker
        } else {
            Outside::Runtime
        };
        self.start_as(outside, operation, stop)
    }

    /// Polls once here: what can be answered at once is, and a request is on its way before the
    /// call returns. The rest waits until it can go on.
    fn start_as(
        &self,
        outside: Outside,
        operation: impl Future<Output = Outcome> + Send + 'static,
        stop: Option<CancellationToken>,
    ) -> Answer {
        let _context = self.runtime.enter();
        let mut operation = Box::pin(operation);
        let parked = Parked::new(self.runtime.handle().clone(), outside);
        let waker = Waker::from(Arc::clone(&parked));
        let mut context = Context::from_waker(&waker);
        // A panic must not unwind into Node.
        let polled = catch_unwind(AssertUnwindSafe(|| operation.as_mut().poll(&mut context)));
        let done = match polled {
            Ok(Poll::Ready(Outcome { reply, undo: None })) => return Either::A(reply.deliver()),
            Ok(Poll::Ready(outcome)) => Some(outcome),
            Ok(Poll::Pending) => None,
            Err(_) => return failed(&Error::internal("The operation failed unexpectedly")),
        };
        let id = self.completions.next_id();
        let pending = self.completions.pending(id);
        if let Some(stop) = stop {
            self.completions.running().insert(id, Hold::from(stop));
        }
        match done {
            Some(outcome) => drop(self.runtime.spawn(conclude(outcome, pending))),
            None => parked.park(Box::pin(async move {
                conclude(operation.await, pending).await;
            })),
        }
        Either::B(id as f64)
    }
}

async fn conclude(outcome: Outcome, mut pending: Pending) {
    let Outcome { reply, undo } = outcome;
    let Some(undo) = undo else {
        return pending.finish(reply);
    };
    pending.interim(reply);
    undo.await;
    pending.finish(Reply::nothing());
}

fn failed(error: &Error) -> Answer {
    Either::A(reply::error(error))
}

/// Runs the operation when its arguments are right, else answers with what is wrong.
fn checked<T>(arguments: Result<T>, start: impl FnOnce(T) -> Answer) -> Answer {
    match arguments {
        Ok(arguments) => start(arguments),
        Err(error) => failed(&error),
    }
}

fn key_and_ttl(key: &str, ttl_ms: f64) -> Result<(Key, Ttl)> {
    Ok((Key::new(key)?, Ttl::from_number(ttl_ms)?))
}

#[napi]
impl NativeBackend {
    #[napi]
    pub fn acquire(&self, key: String, ttl_ms: f64, cancellable: bool) -> Answer {
        checked(key_and_ttl(&key, ttl_ms), |(key, ttl)| {
            let client = Arc::clone(&self.client);
            let cancel = cancellable.then(CancellationToken::new);
            let stop = cancel.clone();
            self.start_single(
                async move { Outcome::of(client.acquire(key, ttl, cancel).await, reply::acquired) },
                stop,
            )
        })
    }

    /// `jitter`: 0 none, 1 equal, 2 full.
    #[napi]
    #[allow(
        clippy::too_many_arguments,
        reason = "positional arguments are the cheapest crossing"
    )]
    pub fn acquire_wait(
        &self,
        key: String,
        ttl_ms: f64,
        max_retries: f64,
        retry_delay_ms: f64,
        exponential: bool,
        jitter: u32,
        timeout_ms: f64,
    ) -> Answer {
        checked(key_and_ttl(&key, ttl_ms), |(key, ttl)| {
            let client = Arc::clone(&self.client);
            let cancel = CancellationToken::new();
            let stop = cancel.clone();
            let policy = WaitPolicy {
                retry: functions::retry_policy(retry_delay_ms, exponential, jitter),
                // Casts saturate, and NaN becomes 0.
                max_retries: max_retries as u32,
                timeout: milliseconds(timeout_ms),
            };
            self.start(
                async move {
                    let settled = client.acquire_wait(key, ttl, policy, cancel).await;
                    Outcome::of(settled, |grant| reply::acquired(Some(grant)))
                },
                Some(stop),
            )
        })
    }

    /// `key` is a hint that wakes a waiting caller of this process.
    #[napi]
    pub fn release(&self, lock_id: String, key: Option<String>) -> Answer {
        checked(LockId::parse(&lock_id), |lock_id| {
            let client = Arc::clone(&self.client);
            let key = key.and_then(|key| Key::new(&key).ok());
            self.start_single(
                async move { reply::of(client.release(lock_id, key).await, reply::released).into() },
                None,
            )
        })
    }

    #[napi]
    pub fn extend(&self, lock_id: String, ttl_ms: f64) -> Answer {
        checked(id_and_ttl(&lock_id, ttl_ms), |(lock_id, ttl)| {
            let client = Arc::clone(&self.client);
            self.start_single(
                async move { reply::of(client.extend(lock_id, ttl).await, reply::extended).into() },
                None,
            )
        })
    }

    #[napi]
    pub fn is_locked(&self, key: String) -> Answer {
        checked(Key::new(&key), |key| {
            let client = Arc::clone(&self.client);
            self.start_single(
                async move { reply::of(client.is_locked(&key).await, reply::boolean).into() },
                None,
            )
        })
    }

    #[napi]
    pub fn lookup_key(&self, key: String) -> Answer {
        checked(Key::new(&key), |key| self.lookup(LookupQuery::Key(key)))
    }

    #[napi]
    pub fn lookup_id(&self, lock_id: String) -> Answer {
        checked(LockId::parse(&lock_id), |lock_id| {
            self.lookup(LookupQuery::LockId(lock_id))
        })
    }

    fn lookup(&self, query: LookupQuery) -> Answer {
        let client = Arc::clone(&self.client);
        self.start_single(
            async move { reply::of(client.lookup(&query).await, reply::found).into() },
            None,
        )
    }

    /// A heartbeat: its id is answered when the lock is lost, or when it was stopped.
    #[napi]
    pub fn hold(&self, lock_id: String, ttl_ms: f64, valid_for_ms: f64) -> Answer {
        checked(id_and_ttl(&lock_id, ttl_ms), |(lock_id, ttl)| {
            let client = Arc::clone(&self.client);
            let id = self.completions.next_id();
            let pending = self.completions.pending(id);
            let hold = Hold::default();
            self.completions.running().insert(id, hold.clone());
            let valid_until = Instant::now() + milliseconds(valid_for_ms);
            self.runtime.spawn(async move {
                let lost = client.hold(lock_id, ttl, valid_until, hold).await;
                pending.finish(match lost {
                    None => Reply::nothing(),
                    Some(error) => reply::error(&error).into(),
                });
            });
            Either::B(id as f64)
        })
    }

    /// The expiry that the heartbeat `id` has reached; 0 before its first beat.
    #[napi]
    pub fn hold_expires_at(&self, id: f64) -> f64 {
        self.completions
            .running()
            .get(&(id as u64))
            .map_or(0.0, |hold| hold.expires_at_ms() as f64)
    }

    /// Stops a heartbeat or a wait; an acquire in flight goes on and is undone.
    #[napi]
    pub fn cancel(&self, id: f64) {
        let running = self.completions.running().get(&(id as u64)).cloned();
        if let Some(running) = running {
            running.stop.cancel();
        }
    }

    /// Makes the tables of a database.
    #[napi]
    pub fn setup(&self) -> Answer {
        let client = Arc::clone(&self.client);
        self.start(
            async move { reply::of(client.setup().await, |()| reply::boolean(true)).into() },
            None,
        )
    }

    #[napi]
    pub fn close(&self) -> Answer {
        let client = Arc::clone(&self.client);
        self.start(
            async move {
                client.close().await;
                reply::boolean(true).into()
            },
            None,
        )
    }
}

fn id_and_ttl(lock_id: &str, ttl_ms: f64) -> Result<(LockId, Ttl)> {
    Ok((LockId::parse(lock_id)?, Ttl::from_number(ttl_ms)?))
}

/// From a JavaScript number; nonsense is 0, and far beyond any wait is a century.
fn milliseconds(ms: f64) -> Duration {
    Duration::from_millis((ms as u64).min(crate::lock::ttl::MAX_TTL_MS))
}
