//! The operations of a backend as JavaScript calls them.

use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use napi::Env;
use napi::bindgen_prelude::{Either, Object};
use napi_derive::napi;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::bridge::Completions;
use super::calls;
use super::environment::Environment;
use super::exit;
use super::hold::Held;
use super::operation::{Operation, Outcome, conclude};
use super::panics::catch_panic;
use super::reply::{self, Reply};
use crate::backend::{Backend, LookupQuery};
use crate::client::Client;
use crate::client::host::Moment;
use crate::client::parked::{Outside, Parked};
use crate::error::{Error, Result};
use crate::lock::{Key, LockId, Ttl};

/// A reply, or the id under which it will follow.
#[napi]
pub type Answer = Either<String, f64>;

/// The operations that are called now and then, as a class. [`calls`] has those that every lock calls.
#[napi]
pub struct NativeBackend(pub(super) Arc<Operations>);

impl Deref for NativeBackend {
    type Target = Operations;

    fn deref(&self) -> &Operations {
        &self.0
    }
}

pub struct Operations {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) client: Arc<Client>,
    pub(super) completions: Arc<Completions>,
    pub(super) runtime: Handle,
    /// Whether JavaScript takes the replies that are ready after each call, without a wake-up.
    pub(super) taken_at_once: bool,
    /// Whether others can see its locks, so that they must not be left behind.
    pub(super) is_shared: bool,
    pub(super) held: Arc<Held>,
    pub(super) environment: Arc<Environment>,
}

impl Operations {
    pub(super) fn start(
        &self,
        operation: impl Future<Output = Outcome> + Send + 'static,
        cancel: Option<CancellationToken>,
    ) -> Answer {
        self.here(|| self.poll_once(Outside::Host, operation, cancel))
    }

    /// Starts an operation that is a single call of the backend.
    pub(super) fn start_single(
        &self,
        operation: impl Future<Output = Outcome> + Send + 'static,
        cancel: Option<CancellationToken>,
    ) -> Answer {
        self.here(|| self.poll_once(self.outside_of_single(), operation, cancel))
    }

    pub(super) fn outside_of_single(&self) -> Outside {
        if self.client.capabilities().has_own_threads {
            Outside::Waker
        } else {
            Outside::Host
        }
    }

    /// Runs `work` and the operations that it wakes on this thread, so that a lock that is released
    /// reaches its next waiter without a detour.
    pub(super) fn here<T>(&self, work: impl FnOnce() -> T) -> T {
        let done = self.completions.in_turn(&self.runtime, work);
        self.bring_replies();
        done
    }

    /// Has the replies of a turn brought to JavaScript, if there are any.
    pub(super) fn bring_replies(&self) {
        if !self.taken_at_once {
            self.completions.wake_if_ready();
        }
    }

    /// Polls the operation once on this thread. It is answered at once if that is possible, and its
    /// request is sent before the call returns. Then it is parked until it is woken.
    pub(super) fn poll_once(
        &self,
        outside: Outside,
        operation: impl Future<Output = Outcome> + Send + 'static,
        cancel: Option<CancellationToken>,
    ) -> Answer {
        let mut operation = Box::pin(Operation::new(operation));
        let host = Arc::clone(self.client.host());
        let parked = Parked::new(Arc::clone(&host), self.runtime.clone(), outside);
        let waker = Waker::from(Arc::clone(&parked));
        let mut context = Context::from_waker(&waker);
        // A panic must not unwind into Node.
        let polled = catch_panic(|| operation.as_mut().poll_for_outcome(&mut context));
        let answered = match polled {
            Some(Poll::Ready(Outcome { reply, undo: None })) => {
                return Either::A(self.at_once(reply));
            }
            Some(Poll::Ready(Outcome {
                reply,
                undo: Some(undo),
            })) => Some((reply, undo)),
            Some(Poll::Pending) => None,
            None => return failed(Error::internal("The operation failed unexpectedly")),
        };
        let id = self.completions.next_id();
        let pending = self.completions.pending(id);
        if let Some(cancel) = cancel {
            self.completions.start(id, cancel);
        }
        match answered {
            Some((reply, undo)) => host.spawn(Box::pin(conclude(reply, undo, pending))),
            None => {
                operation.as_mut().reply_through(pending);
                parked.park(operation);
            }
        }
        Either::B(id as f64)
    }

    fn at_once(&self, reply: Reply) -> String {
        if self.is_shared {
            let id = self.completions.next_id();
            return self.completions.outbox.hand_over_at_once(id, reply);
        }
        let (text, unclaimed) = reply.into_parts();
        if let Some(lock) = unclaimed {
            lock.claim();
        }
        text
    }

    pub fn acquire(&self, key: &str, ttl_ms: f64, cancellable: bool) -> Answer {
        checked(key_and_ttl(key, ttl_ms), |(key, ttl)| {
            let client = Arc::clone(&self.client);
            let cancel = cancellable.then(CancellationToken::new);
            let token = cancel.clone();
            let operation = async move {
                let settled = Arc::clone(&client).acquire(key.clone(), ttl, cancel).await;
                let reply = match settled.result {
                    Ok(Some(grant)) => {
                        let text = reply::acquired(&grant);
                        Reply::from(text).or_else(move || client.disown(grant.lock_id, &key, ttl))
                    }
                    Ok(None) => reply::locked().into(),
                    Err(error) => error.into(),
                };
                Outcome {
                    reply,
                    undo: settled.undo,
                }
            };
            self.start_single(operation, token)
        })
    }

    /// With `key` a waiter of this process is woken.
    pub fn release(&self, lock_id: &str, key: Option<&str>) -> Answer {
        checked(LockId::parse(lock_id), |lock_id| {
            let client = Arc::clone(&self.client);
            let key = key.and_then(|key| Key::new(key).ok());
            self.start_single(
                async move { reply::of(client.release(lock_id, key).await, reply::released).into() },
                None,
            )
        })
    }
}

pub(super) fn failed(error: Error) -> Answer {
    Either::A(reply::error(&error))
}

/// Runs the operation if its arguments are valid. Otherwise answers with the error.
pub(super) fn checked<T>(arguments: Result<T>, start: impl FnOnce(T) -> Answer) -> Answer {
    match arguments {
        Ok(arguments) => start(arguments),
        Err(error) => failed(error),
    }
}

pub(super) fn key_and_ttl(key: &str, ttl_ms: f64) -> Result<(Key, Ttl)> {
    Ok((Key::new(key)?, Ttl::from_number(ttl_ms)?))
}

fn id_and_ttl(lock_id: &str, ttl_ms: f64) -> Result<(LockId, Ttl)> {
    Ok((LockId::parse(lock_id)?, Ttl::from_number(ttl_ms)?))
}

/// Converts milliseconds from JavaScript. An invalid number is 0, and the longest duration a century.
pub(super) fn milliseconds(ms: f64) -> Duration {
    Duration::from_millis((ms as u64).min(crate::lock::ttl::MAX_TTL_MS))
}

#[napi]
impl NativeBackend {
    /// The calls that every lock makes: see [`calls`].
    #[napi(ts_return_type = "{
    acquire(key: string, ttlMs: number, cancellable: boolean): Answer
    /** With `key` a waiter of this process is woken. */
    release(lockId: string, key: string | null): Answer
    /** `caller`: see `AcquireRequest::caller`. */
    hold(key: string, ttlMs: number, wait: boolean, autoExtend: boolean, cancellable: boolean, caller: number, limits: Float64Array): Answer
    /** Returns for how many milliseconds the lock is certainly still held. Negative if it is not. */
    heldFor(number: number): number
    /** Whether the grant reached its caller too late to be of use: 1 or 0. */
    isLate(number: number): number
    /** Releases the lock. Answers `!` if it is not certainly held any more, unless `knowsLoss`. With `takes` a waiter may be answered along with this, as `1id,reply`. */
    endHold(number: number, takes: boolean, knowsLoss: boolean): Answer
  }")]
    pub fn calls<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        calls::bind(env, &self.0)
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

    /// Lists a page of the live locks.
    #[napi]
    pub fn list(&self, after: Option<String>, limit: u32) -> Answer {
        let client = Arc::clone(&self.client);
        let list = async move {
            let page = client.list(after.as_deref(), limit as usize).await;
            reply::of(page, reply::page).into()
        };
        self.start_single(list, None)
    }

    #[napi]
    pub fn force_release(&self, key: String) -> Answer {
        checked(Key::new(&key), |key| {
            let client = Arc::clone(&self.client);
            self.start_single(
                async move { reply::of(client.force_release(&key).await, reply::boolean).into() },
                None,
            )
        })
    }

    /// Describes the store.
    #[napi]
    pub fn report(&self) -> Answer {
        let client = Arc::clone(&self.client);
        self.start_single(
            async move { reply::of(client.report().await, reply::report).into() },
            None,
        )
    }

    /// Whether waiters are notified of a release.
    #[napi]
    pub fn can_watch(&self) -> bool {
        Key::new("any").is_ok_and(|key| self.backend.watch(&key).is_some())
    }

    /// Returns the engine's time in milliseconds, as in `validUntil`.
    #[napi]
    pub fn now(&self) -> f64 {
        reply::milliseconds(self.client.host().now()) as f64
    }

    /// Sends an empty reply, under the id that it returns, when the engine's time reaches `at_ms`.
    #[napi]
    pub fn alarm(&self, at_ms: f64) -> f64 {
        let id = self.completions.next_id();
        let pending = self.completions.pending(id);
        let cancel = CancellationToken::new();
        self.completions.start(id, cancel.clone());
        let moment = Moment::after_start(milliseconds(at_ms));
        self.here(|| {
            let ringing = self.client.host().sleep_until(moment);
            self.client.host().spawn(Box::pin(async move {
                cancel.run_until_cancelled(ringing).await;
                pending.finish(Reply::nothing());
            }));
        });
        id as f64
    }

    /// Lets the end of the process release what this backend holds, unless that needs JavaScript, which
    /// has ended by then.
    #[napi]
    pub fn release_on_exit(&self) {
        self.held.release_on_exit();
        if !self.taken_at_once {
            exit::register(&self.client);
        }
    }

    /// Whether JavaScript has to take the replies that are ready after each call.
    #[napi]
    pub fn is_served_here(&self) -> bool {
        self.taken_at_once
    }

    /// Cancels the operation. A lock that it acquires is released.
    #[napi]
    pub fn cancel(&self, id: f64) {
        self.here(|| self.completions.cancel(id as u64));
    }

    /// Returns the SQL that `setup` runs. Null if the store needs none.
    #[napi]
    pub fn schema(&self) -> Option<String> {
        self.backend.schema()
    }

    /// Creates the tables of a database.
    #[napi]
    pub fn setup(&self) -> Answer {
        let client = Arc::clone(&self.client);
        self.start(
            async move { reply::of(client.setup().await, |()| reply::boolean(true)).into() },
            None,
        )
    }

    #[napi]
    pub fn close(&self, timeout_ms: f64) -> Answer {
        let client = Arc::clone(&self.client);
        let timeout = milliseconds(timeout_ms);
        self.start(
            async move {
                client.close(timeout).await;
                Reply::from(reply::boolean(true)).into()
            },
            None,
        )
    }
}
