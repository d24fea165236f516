//! Starts operations. An operation is polled once on the caller's thread. If that completes it, the call
//! returns its reply. Otherwise the reply follows through the [`Outbox`].

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use napi::bindgen_prelude::Either;
use napi_derive::napi;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::environment::Environment;
use super::hold::Held;
use super::outbox::Outbox;
use super::panics::catch_panic;
use super::reply::{self, Reply};
use crate::backend::Backend;
use crate::client::parked::{Outside, Parked};
use crate::client::{Client, Settled};
use crate::error::{Error, Result};
use crate::lock::{Key, Ttl};

/// A reply, or the id under which it will follow.
#[napi]
pub type Answer = Either<String, f64>;

/// A backend with everything that its operations need.
pub struct Operations {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) client: Arc<Client>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) runtime: Handle,
    /// Whether the backend, or its clock, is JavaScript's. JavaScript then takes the replies that are ready
    /// after each call, without a wake-up.
    pub(super) needs_javascript: bool,
    /// Whether nobody else can see the backend's locks, so that locks may be left behind.
    pub(super) is_private: bool,
    pub(super) held: Arc<Held>,
    pub(super) environment: Arc<Environment>,
}

impl Operations {
    pub(super) fn start(
        &self,
        operation: impl Future<Output = Outcome> + Send + 'static,
        cancel: Option<CancellationToken>,
    ) -> Answer {
        self.in_turn(|| self.poll_once(Outside::Host, operation, cancel))
    }

    /// Starts an operation that is a single call of the backend.
    pub(super) fn start_single(
        &self,
        operation: impl Future<Output = Outcome> + Send + 'static,
        cancel: Option<CancellationToken>,
    ) -> Answer {
        self.in_turn(|| self.poll_once(self.outside_of_single(), operation, cancel))
    }

    /// Starts a single call of the backend. `ok` makes the reply from its result.
    pub(super) fn call<T, F>(
        &self,
        ok: fn(T) -> String,
        call: impl FnOnce(Arc<Client>) -> F,
    ) -> Answer
    where
        T: 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let calling = call(Arc::clone(&self.client));
        self.start_single(async move { reply::of(calling.await, ok).into() }, None)
    }

    /// Returns where a single call of the backend continues if it is woken outside a turn.
    pub(super) fn outside_of_single(&self) -> Outside {
        if self.client.capabilities().has_own_threads {
            Outside::Waker
        } else {
            Outside::Host
        }
    }

    /// Runs `work` and the operations that it wakes on this thread, so that a lock that is released
    /// reaches its next waiter without a detour over another thread.
    pub(super) fn in_turn<T>(&self, work: impl FnOnce() -> T) -> T {
        let done = self.outbox.in_turn(&self.runtime, work);
        self.wake_for_replies();
        done
    }

    /// Wakes the JavaScript thread if replies of a turn are ready.
    pub(super) fn wake_for_replies(&self) {
        if !self.needs_javascript {
            self.outbox.wake_if_ready();
        }
    }

    /// Polls the operation once on this thread, which answers it or at least sends its request before the
    /// call returns. An operation that has to wait is parked until it is woken.
    pub(super) fn poll_once(
        &self,
        outside: Outside,
        operation: impl Future<Output = Outcome> + Send + 'static,
        cancel: Option<CancellationToken>,
    ) -> Answer {
        let mut operation = Box::pin(operation);
        let host = Arc::clone(self.client.host());
        let parked = Parked::new(Arc::clone(&host), self.runtime.clone(), outside);
        let waker = Waker::from(Arc::clone(&parked));
        let mut context = Context::from_waker(&waker);
        // A panic must not unwind into Node.
        let outcome = match catch_panic(|| operation.as_mut().poll(&mut context)) {
            Some(Poll::Ready(Outcome { reply, undo: None })) => {
                return Either::A(self.at_once(reply));
            }
            Some(Poll::Ready(outcome)) => Some(outcome),
            Some(Poll::Pending) => None,
            None => {
                return failed(Error::internal(
                    "The operation failed because of a bug in syncguard. Please report it",
                ));
            }
        };
        let id = self.outbox.next_id();
        let pending = self.outbox.pending(id);
        if let Some(cancel) = cancel {
            self.outbox.queue.start(id, cancel);
        }
        match outcome {
            Some(outcome) => host.spawn(Box::pin(pending.conclude(outcome))),
            None => parked.park(Box::pin(async move {
                pending.conclude(operation.await).await;
            })),
        }
        Either::B(id as f64)
    }

    /// Returns the text of a reply that the call itself returns.
    fn at_once(&self, reply: Reply) -> String {
        if !self.is_private {
            let id = self.outbox.next_id();
            return self.outbox.hand_over_at_once(id, reply);
        }
        let (text, unclaimed) = reply.into_parts();
        if let Some(lock) = unclaimed {
            lock.claim();
        }
        text
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

/// Converts milliseconds from JavaScript. An invalid number is 0, and the longest duration a century.
pub(super) fn milliseconds(ms: f64) -> Duration {
    Duration::from_millis((ms as u64).min(crate::lock::ttl::MAX_TTL_MS))
}

/// The outcome of an operation: the reply and, in some cases, an undo that continues after it.
pub(super) struct Outcome {
    pub reply: Reply,
    pub undo: Option<BoxFuture<'static, ()>>,
}

impl Outcome {
    /// Converts the result of an acquire or a wait. `hand_over` makes the reply with what was acquired.
    pub fn of<T>(settled: Settled<Option<T>>, hand_over: impl FnOnce(T) -> Reply) -> Self {
        let reply = match settled.result {
            Ok(Some(acquired)) => hand_over(acquired),
            Ok(None) => reply::locked().into(),
            Err(error) => error.into(),
        };
        Self {
            reply,
            undo: settled.undo,
        }
    }
}

impl From<Reply> for Outcome {
    fn from(reply: Reply) -> Self {
        Self { reply, undo: None }
    }
}
