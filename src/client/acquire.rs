//! Acquiring a lock: a single attempt, and holding what it acquired.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::mark::Mark;
#[cfg(test)]
use super::simulation::mutation::Mutation;
use super::wait::Wanted;
use super::{Client, Grant, Hold, HoldPolicy, Progress, WaitPolicy, aborted, closed};
use crate::backend::{AcquireOutcome, AcquireRequest, Holder};
use crate::error::{Error, Result};
use crate::lock::{Access, Key, LockId, Ttl};

/// A lock that a caller wants.
#[derive(Debug, Clone)]
pub struct LockRequest {
    pub key: Key,
    pub ttl: Ttl,
    pub access: Access,
    /// See [`AcquireRequest::caller`].
    pub caller: u64,
}

#[cfg(test)]
impl LockRequest {
    pub(super) fn exclusive(key: Key, ttl: Ttl) -> Self {
        Self {
            key,
            ttl,
            access: Access::Exclusive,
            caller: 0,
        }
    }
}

/// A lock that a caller wants to wait for and hold.
#[derive(Debug)]
pub struct HoldRequest {
    pub key: Key,
    pub access: Access,
    pub policy: HoldPolicy,
    /// None for a single attempt.
    pub wait: Option<WaitPolicy>,
    /// See [`AcquireRequest::caller`].
    pub caller: u64,
}

/// A result for the caller, and the undo of an acquire that is still under way, if there is one.
pub struct Settled<T> {
    pub result: Result<T>,
    pub undo: Option<BoxFuture<'static, ()>>,
}

impl<T> From<Result<T>> for Settled<T> {
    fn from(result: Result<T>) -> Self {
        Self { result, undo: None }
    }
}

/// The outcome of one attempt to acquire a lock.
pub(super) enum Attempt {
    Granted(Grant),
    /// Another holder has the lock. None if the store did not say which.
    Refused(Option<Holder>),
    Failed(Failure),
}

/// Why an attempt failed. It may have taken effect all the same: `undo` is under way then.
pub(super) struct Failure {
    pub error: Error,
    pub undo: Option<BoxFuture<'static, ()>>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, undo: None }
    }
}

impl<T> From<Failure> for Settled<T> {
    fn from(Failure { error, undo }: Failure) -> Self {
        Self {
            result: Err(error),
            undo,
        }
    }
}

impl Client {
    /// Makes one attempt. None if another holder has the lock. An acquire that is cancelled is undone.
    pub async fn acquire(
        self: Arc<Self>,
        lock: LockRequest,
        cancel: Option<CancellationToken>,
    ) -> Settled<Option<Grant>> {
        self.stall_at_process_end().await;
        let _under_way = self.undoing.token();
        let (key, ttl) = (lock.key.clone(), lock.ttl);
        match Arc::clone(&self).attempt(lock, None).await {
            Attempt::Granted(grant) if cancel.is_some_and(|cancel| cancel.is_cancelled()) => {
                Settled {
                    result: Err(aborted()),
                    undo: Some(self.undo(grant.lock_id, &key, ttl)),
                }
            }
            Attempt::Granted(grant) => Ok(Some(grant)).into(),
            Attempt::Refused(_) => Ok(None).into(),
            Attempt::Failed(failure) => failure.into(),
        }
    }

    /// Waits for the lock and holds it. None if a single attempt was refused. This is not an async
    /// function, which would keep a second copy of the request.
    pub fn hold(
        self: Arc<Self>,
        request: HoldRequest,
        cancel: Option<CancellationToken>,
    ) -> impl Future<Output = Settled<Option<Arc<Hold>>>> + Send + 'static {
        let progress = Progress::start(request.wait, self.host.now());
        self.hold_from(request, progress, cancel)
    }

    /// Releases a lock whose grant came too late for its caller, and continues the wait.
    pub async fn hold_again(
        self: Arc<Self>,
        hold: Arc<Hold>,
        caller: u64,
        cancel: Option<CancellationToken>,
    ) -> Settled<Option<Arc<Hold>>> {
        drop(self.abandon(&hold));
        let request = HoldRequest {
            key: hold.key.clone(),
            access: hold.access,
            policy: hold.policy,
            wait: None,
            caller,
        };
        let progress = hold.progress;
        self.hold_from(request, progress, cancel).await
    }

    /// Registers a new hold. Fails if the client is closing.
    pub(super) fn register(self: &Arc<Self>, hold: &Arc<Hold>) -> Result<()> {
        self.holds.insert(Arc::clone(hold));
        // Checked only after the hold is registered. Otherwise a close that begins between the two steps
        // would not know of the hold.
        if self.closing.is_cancelled() {
            self.holds.remove(hold.lock_id);
            return Err(closed());
        }
        if hold.needs_keeper() {
            self.keep_when_due(hold);
        }
        Ok(())
    }

    pub(super) async fn hold_from(
        self: Arc<Self>,
        request: HoldRequest,
        mut progress: Progress,
        cancel: Option<CancellationToken>,
    ) -> Settled<Option<Arc<Hold>>> {
        self.stall_at_process_end().await;
        // `close` waits for this token until the lock is registered as a hold or is being undone.
        let _under_way = self.undoing.token();
        let lock = LockRequest {
            key: request.key,
            ttl: request.policy.ttl,
            access: request.access,
            caller: request.caller,
        };
        let wanted = Wanted {
            lock: &lock,
            cancel: cancel.as_ref(),
        };
        let settled = self.wait(&wanted, &mut progress).await;
        let result = match settled.result {
            Ok(Some(grant)) => {
                let now = self.host.now();
                let hold = Hold::new(&lock, &grant, request.policy, progress, now);
                let hold = Arc::new(hold);
                if let Err(error) = self.register(&hold) {
                    return Settled {
                        result: Err(error),
                        undo: Some(self.undo(hold.lock_id, &hold.key, hold.policy.ttl)),
                    };
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

    /// Releases, in the background, a lock whose caller is gone.
    pub fn disown(self: &Arc<Self>, lock_id: LockId, key: &Key, ttl: Ttl) {
        drop(self.undo(lock_id, key, ttl));
    }

    fn new_lock_id(&self, key: &Key, access: Access) -> LockId {
        let lock_id = LockId::from_bytes(self.host.random_bytes());
        self.capabilities.lock_id_for(key, access, lock_id)
    }

    /// Makes one attempt. An exclusive waiter passes its `mark`: see [`AcquireRequest::mark`]. The mark
    /// is not removed before the attempt is answered.
    pub(super) async fn attempt(
        self: Arc<Self>,
        lock: LockRequest,
        mark: Option<Arc<Mark>>,
    ) -> Attempt {
        if self.closing.is_cancelled() {
            return Attempt::Failed(closed().into());
        }
        if lock.access.is_shared() && !self.capabilities.supports_sharing {
            return Attempt::Failed(cannot_share().into());
        }
        let ttl = lock.ttl;
        let request = AcquireRequest {
            lock_id: self.new_lock_id(&lock.key, lock.access),
            key: lock.key,
            ttl,
            label: self.label.clone(),
            caller: lock.caller,
            access: lock.access,
            mark: mark.as_ref().map(|mark| mark.id),
        };
        #[cfg(test)]
        let request = AcquireRequest {
            mark: request.mark.filter(|_| !Mutation::MarkNotLeft.is_on()),
            ..request
        };
        // The validity counts from before the request, because the store may grant the lock at once.
        let started = self.host.now();
        match self.backend.acquire(&request).await {
            Ok(AcquireOutcome::Acquired {
                fence,
                expires_at_ms,
                share,
            }) => {
                let answered_at = self.host.now();
                #[cfg(test)]
                let started = Mutation::ValidFromAnswer.instead(started, answered_at);
                #[cfg(test)]
                let answered_at = Mutation::MinHoldFromRequest.instead(answered_at, started);
                Attempt::Granted(Grant {
                    lock_id: request.lock_id,
                    fence,
                    expires_at_ms,
                    share,
                    granted_at: started,
                    answered_at,
                    valid_until: started + ttl.duration(),
                })
            }
            Ok(AcquireOutcome::Locked(holder)) => Attempt::Refused(holder),
            Err(error) => {
                let undo = error
                    .outcome_unknown
                    .then(|| self.undo(request.lock_id, &request.key, ttl));
                Attempt::Failed(Failure { error, undo })
            }
        }
    }
}

fn cannot_share() -> Error {
    Error::invalid_argument(
        "This backend cannot share a key: its capabilities do not include supportsSharing. Leave out \
         concurrency and mode, or use a backend of this package",
    )
}
