//! The engine: what callers do with a backend. Each rule is here once, whoever calls and whatever
//! the backend is:
//!
//! - [`wait`]: how to wait for a lock, with others of this process in a [`queue`], and with
//!   [`rivals`] elsewhere;
//! - [`hold`]: until when a lock is surely ours, and how it ends; [`keep`]: keeping it alive;
//! - [`undo`]: what becomes of an acquire that nobody owns.
//!
//! Time and threads are those of a [`host`], for real the [`system`]'s. An operation that waits is
//! [`parked`].

mod hold;
pub mod host;
mod keep;
pub mod parked;
mod queue;
mod rivals;
pub mod system;
mod undo;
mod wait;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::backend::report::Finding;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, Holder, LockRecord, LookupQuery, Miss,
    Page, ReleaseOutcome,
};
use crate::error::{Error, ErrorCode, Result};
use crate::lock::{Fence, Key, LockId, Ttl};

pub use hold::{Hold, HoldEvent, HoldPolicy};
pub use wait::{Progress, WaitPolicy};

use hold::Holds;
use host::{Host, Moment};
use queue::Queues;
#[cfg(test)]
use simulation::mutation::Mutation;
use undo::Undoing;
use wait::Wanted;

/// A lock that was just acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub lock_id: LockId,
    pub fence: Fence,
    pub expires_at_ms: u64,
    pub granted_at: Moment,
    /// Until then it is surely ours, whatever the clocks of others say.
    pub valid_until: Moment,
}

/// A lock that was extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    pub expires_at_ms: u64,
    pub valid_until: Moment,
}

enum Attempt {
    Granted(Grant),
    Refused(Option<Holder>),
}

/// An answer for the caller and, sometimes, work that goes on after it.
pub struct Settled<T> {
    pub result: Result<T>,
    pub undo: Option<BoxFuture<'static, ()>>,
}

impl<T> From<Result<T>> for Settled<T> {
    fn from(result: Result<T>) -> Self {
        Self { result, undo: None }
    }
}

/// A lock to be waited for and held.
#[derive(Debug)]
pub struct HoldRequest {
    pub key: Key,
    pub policy: HoldPolicy,
    /// Nothing: a single attempt.
    pub wait: Option<WaitPolicy>,
    /// See [`Backend::acquire_for`].
    pub caller: u64,
}

pub struct Client {
    backend: Arc<dyn Backend>,
    host: Arc<dyn Host>,
    queues: Arc<Queues>,
    holds: Holds,
    undoing: Undoing,
    /// No new locks.
    closing: CancellationToken,
    /// Nothing at all any more.
    closed: CancellationToken,
    close_called: AtomicBool,
}

impl Client {
    pub fn new(backend: Arc<dyn Backend>, host: Arc<dyn Host>) -> Arc<Self> {
        Arc::new(Self {
            backend,
            host,
            queues: Arc::default(),
            holds: Holds::default(),
            undoing: Undoing::default(),
            closing: CancellationToken::new(),
            closed: CancellationToken::new(),
            close_called: AtomicBool::new(false),
        })
    }

    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// One attempt; nothing when another holds the key. A cancelled one is undone.
    pub async fn acquire(
        self: Arc<Self>,
        key: Key,
        ttl: Ttl,
        cancel: Option<CancellationToken>,
    ) -> Settled<Option<Grant>> {
        let _under_way = self.undoing.token();
        let settled = Arc::clone(&self).attempt(key.clone(), ttl, 0).await;
        let result = match settled.result {
            Ok(Attempt::Granted(grant)) => {
                if cancel.is_some_and(|cancel| cancel.is_cancelled()) {
                    return Settled {
                        result: Err(aborted()),
                        undo: Some(self.undo(grant.lock_id, &key, ttl)),
                    };
                }
                Ok(Some(grant))
            }
            Ok(Attempt::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        };
        Settled {
            result,
            undo: settled.undo,
        }
    }

    /// Waits for the lock and holds it; nothing when a single attempt failed. Not an async function,
    /// which would keep a second copy of the request.
    pub fn hold(
        self: Arc<Self>,
        request: HoldRequest,
        cancel: Option<CancellationToken>,
    ) -> impl Future<Output = Settled<Option<Arc<Hold>>>> + Send + 'static {
        let progress = Progress::start(request.wait, self.host.now());
        self.hold_from(request, progress, cancel)
    }

    /// Gives a lock back that its caller could not use any more, and goes on waiting for it.
    pub async fn hold_again(
        self: Arc<Self>,
        hold: Arc<Hold>,
        caller: u64,
        cancel: Option<CancellationToken>,
    ) -> Settled<Option<Arc<Hold>>> {
        drop(self.abandon(&hold));
        let request = HoldRequest {
            key: hold.key.clone(),
            policy: hold.policy,
            wait: None,
            caller,
        };
        let progress = hold.progress;
        self.hold_from(request, progress, cancel).await
    }

    async fn hold_from(
        self: Arc<Self>,
        request: HoldRequest,
        mut progress: Progress,
        cancel: Option<CancellationToken>,
    ) -> Settled<Option<Arc<Hold>>> {
        // Until it is known as a hold, or as something to undo, closing waits for this.
        let _under_way = self.undoing.token();
        let wanted = Wanted {
            key: &request.key,
            ttl: request.policy.ttl,
            caller: request.caller,
            cancel: cancel.as_ref(),
        };
        let settled = self.wait(&wanted, &mut progress).await;
        let result = match settled.result {
            Ok(Some(grant)) => {
                let now = self.host.now();
                let hold = Hold::new(request.key, &grant, request.policy, progress, now);
                let hold = Arc::new(hold);
                self.holds.insert(Arc::clone(&hold));
                // Not earlier: else a close could come between, and not know of it.
                if self.closing.is_cancelled() {
                    self.holds.remove(hold.lock_id);
                    return Settled {
                        result: Err(closed()),
                        undo: Some(self.undo(hold.lock_id, &hold.key, hold.policy.ttl)),
                    };
                }
                if request.policy.auto_extend || request.policy.longest.is_some() {
                    self.keep(&hold);
                }
                Ok(Some(hold))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error.detail("attempts", progress.attempts)),
        };
        Settled {
            result,
            undo: settled.undo,
        }
    }

    /// Gives back what was acquired for somebody who is gone.
    pub fn disown(self: &Arc<Self>, lock_id: LockId, key: &Key, ttl: Ttl) {
        drop(self.undo(lock_id, key, ttl));
    }

    async fn attempt(self: Arc<Self>, key: Key, ttl: Ttl, caller: u64) -> Settled<Attempt> {
        if self.closing.is_cancelled() {
            return Err(closed()).into();
        }
        let request = AcquireRequest {
            lock_id: self.backend.new_lock_id(&key),
            key,
            ttl,
        };
        let started = self.host.now();
        match self.backend.acquire_for(&request, caller).await {
            Ok(AcquireOutcome::Acquired {
                fence,
                expires_at_ms,
            }) => {
                #[cfg(test)]
                let started = Mutation::ValidFromAnswer.instead(started, self.host.now());
                Ok(Attempt::Granted(Grant {
                    lock_id: request.lock_id,
                    fence,
                    expires_at_ms,
                    granted_at: started,
                    valid_until: started + ttl.duration(),
                }))
                .into()
            }
            Ok(AcquireOutcome::Locked(holder)) => Ok(Attempt::Refused(holder)).into(),
            Err(error) => {
                let undo = error
                    .outcome_unknown
                    .then(|| self.undo(request.lock_id, &request.key, ttl));
                Settled {
                    result: Err(error),
                    undo,
                }
            }
        }
    }

    pub async fn setup(&self) -> Result<()> {
        self.check_open()?;
        self.backend.setup().await
    }

    /// `key` is a hint: a caller of this process that waits for it is woken.
    pub async fn release(&self, lock_id: LockId, key: Option<Key>) -> Result<ReleaseOutcome> {
        self.check_open()?;
        let outcome = match &key {
            Some(key) => self.pass_on(lock_id, key).await?,
            None => self.backend.release(lock_id).await?,
        };
        if let Some(hold) = self.holds.get(lock_id) {
            hold.lose(hold::lost(
                "The lock was released while it was still needed",
            ));
            if key.is_none() {
                self.queues.released(&hold.key);
            }
        }
        Ok(outcome)
    }

    /// The inner error says why there is nothing to extend. A holder learns of that.
    pub async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<Result<Extension, Miss>> {
        let extended = self.extend_once(lock_id, ttl).await?;
        if extended.is_err()
            && let Some(hold) = self.holds.get(lock_id)
        {
            hold.taken_away();
        }
        Ok(extended)
    }

    async fn extend_once(&self, lock_id: LockId, ttl: Ttl) -> Result<Result<Extension, Miss>> {
        let hold = self.holds.get(lock_id);
        // One after the other: else an earlier one could be taken for the last.
        let _turn = match &hold {
            Some(hold) => Some(hold.extending.lock().await),
            None => None,
        };
        self.check_open()?;
        let valid_until = self.host.now() + ttl.duration();
        if let Some(hold) = &hold {
            hold.asks_for(ttl, valid_until);
        }
        match self.backend.extend(lock_id, ttl).await? {
            ExtendOutcome::Extended { expires_at_ms } => {
                #[cfg(test)]
                let valid_until = Mutation::ExtendedFromAnswer
                    .instead(valid_until, self.host.now() + ttl.duration());
                if let Some(hold) = &hold {
                    hold.extended(expires_at_ms, valid_until);
                }
                Ok(Ok(Extension {
                    expires_at_ms,
                    valid_until,
                }))
            }
            ExtendOutcome::Missed(miss) => Ok(Err(miss)),
        }
    }

    pub async fn is_locked(&self, key: &Key) -> Result<bool> {
        self.check_open()?;
        self.backend.is_locked(key).await
    }

    pub async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        self.check_open()?;
        self.backend.lookup(query).await
    }

    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        self.check_open()?;
        self.backend.list(after, limit).await
    }

    /// Whether there was a lock to take away.
    pub async fn force_release(&self, key: &Key) -> Result<bool> {
        self.check_open()?;
        // Now: who gets the key after it was taken away keeps it.
        let held = self.holds.of(key);
        let released = self.backend.force_release(key).await?;
        for hold in held.iter().filter(|_| released) {
            hold.taken_away();
        }
        self.queues.released(key);
        Ok(released)
    }

    pub async fn report(&self) -> Result<Vec<Finding>> {
        self.check_open()?;
        self.backend.report().await
    }

    /// Ends waits at once. Locks that are held keep their connection until they are given back, for
    /// so long at most; then they are taken away. Who calls it again waits for the first call.
    pub async fn close(self: Arc<Self>, timeout: Duration) {
        if self.close_called.swap(true, Ordering::AcqRel) {
            return self.closed.cancelled().await;
        }
        self.closing.cancel();
        tokio::select! {
            biased;
            () = self.holds.until_empty() => {}
            () = self.host.sleep_until(self.host.now() + timeout) => {}
        }
        for hold in self.holds.all() {
            #[cfg(test)]
            if Mutation::HoldsLeft.is_on() {
                break;
            }
            let why = hold::lost("The lock was given up: its backend was closed");
            self.give_up(&hold, why);
        }
        self.finish_undoing().await;
        self.closed.cancel();
        self.backend.close().await;
    }

    /// See [`Backend::has_own_threads`].
    pub fn has_own_threads(&self) -> bool {
        self.backend.has_own_threads()
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.is_cancelled() {
            return Err(closed());
        }
        Ok(())
    }
}

fn closed() -> Error {
    Error::invalid_argument("This backend is closed: create a new one")
}

fn aborted() -> Error {
    Error::new(ErrorCode::Aborted, "Operation aborted by signal")
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
