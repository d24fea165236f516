//! What callers do with a backend: single operations, waiting for a lock, keeping one alive.
//!
//! An acquire that the caller gave up, or whose answer was lost, is undone in the background:
//! see [`undo`].

mod hold;
pub mod parked;
mod undo;
mod wait;
mod waiters;

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, LockRecord, LookupQuery, ReleaseOutcome,
};
use crate::error::{Error, ErrorCode, Result};
use crate::lock::{Fence, Key, LockId, Ttl};

pub use hold::Hold;
pub use wait::WaitPolicy;

use undo::Undoing;
use waiters::Waiters;

/// A lock that was just acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub lock_id: LockId,
    pub fence: Fence,
    pub expires_at_ms: u64,
    /// Until then it is surely ours, whatever the clocks say.
    pub valid_until: Instant,
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

pub struct Client {
    backend: Arc<dyn Backend>,
    waiters: Waiters,
    undoing: Undoing,
    closing: CancellationToken,
}

impl Client {
    pub fn new(backend: Arc<dyn Backend>) -> Arc<Self> {
        Arc::new(Self {
            backend,
            waiters: Waiters::default(),
            undoing: Undoing::default(),
            closing: CancellationToken::new(),
        })
    }

    /// One attempt; `None` when another holds the key. A cancelled one is undone.
    pub async fn acquire(
        self: Arc<Self>,
        key: Key,
        ttl: Ttl,
        cancel: Option<CancellationToken>,
    ) -> Settled<Option<Grant>> {
        let request = AcquireRequest {
            key,
            lock_id: LockId::generate(),
            ttl,
        };
        let settled = self.attempt(&request).await;
        let cancelled = cancel.is_some_and(|cancel| cancel.is_cancelled());
        if cancelled && matches!(settled.result, Ok(Some(_))) {
            return Settled {
                result: Err(aborted()),
                undo: Some(self.undo(&request)),
            };
        }
        settled
    }

    async fn attempt(self: &Arc<Self>, request: &AcquireRequest) -> Settled<Option<Grant>> {
        if let Err(error) = self.check_open() {
            return Err(error).into();
        }
        let started = Instant::now();
        match self.backend.acquire(request).await {
            Ok(AcquireOutcome::Acquired {
                fence,
                expires_at_ms,
            }) => Ok(Some(Grant {
                lock_id: request.lock_id,
                fence,
                expires_at_ms,
                valid_until: started + request.ttl.duration(),
            }))
            .into(),
            Ok(AcquireOutcome::Locked { .. }) => Ok(None).into(),
            Err(error) => {
                let undo = error.outcome_unknown.then(|| self.undo(request));
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
        let outcome = self.backend.release(lock_id).await?;
        if let Some(key) = key {
            self.waiters.wake_one(&key);
        }
        Ok(outcome)
    }

    pub async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        self.check_open()?;
        self.backend.extend(lock_id, ttl).await
    }

    pub async fn is_locked(&self, key: &Key) -> Result<bool> {
        self.check_open()?;
        self.backend.is_locked(key).await
    }

    pub async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        self.check_open()?;
        self.backend.lookup(query).await
    }

    /// Ends waits at once and waits itself, for a bounded time, until lost acquires are undone.
    /// A second call does nothing.
    pub async fn close(&self) {
        if !self.closing.is_cancelled() {
            self.closing.cancel();
            self.undoing.finish().await;
            self.backend.close().await;
        }
    }

    /// See [`Backend::has_own_threads`].
    pub fn has_own_threads(&self) -> bool {
        self.backend.has_own_threads()
    }

    fn check_open(&self) -> Result<()> {
        if self.closing.is_cancelled() {
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
mod tests;
