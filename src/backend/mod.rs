//! A backend stores locks. It gets validated keys, ids and TTLs and answers with plain facts;
//! validation, waiting, undoing and the shape of results are the callers' business.

pub mod firestore;
pub mod javascript;
pub mod memory;
pub mod postgres;
pub mod redis;
pub mod report;
pub mod sqlite;
pub mod tls;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use crate::error::{Error, Result};
use crate::lock::{Fence, Key, LockId, Ttl};
use report::Finding;

#[derive(Debug, Clone)]
pub struct AcquireRequest {
    pub key: Key,
    pub lock_id: LockId,
    pub ttl: Ttl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcquireOutcome {
    Acquired {
        fence: Fence,
        expires_at_ms: u64,
    },
    /// By this one; nothing when the store does not tell.
    Locked(Option<Holder>),
}

/// Who has the lock that another wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Unless it is extended, not longer than this.
    pub free_in: Duration,
    /// By the store's clock. When it is not the same a moment later, it is another one's, or was
    /// extended.
    pub expires_at_ms: u64,
}

/// Why a lock could not be released or extended, as far as the store tells without another look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    Expired,
    /// It never existed, is gone, or belongs to another lockId.
    NotFound,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseOutcome {
    Released,
    Missed(Miss),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtendOutcome {
    Extended { expires_at_ms: u64 },
    Missed(Miss),
}

#[derive(Debug, Clone)]
pub enum LookupQuery {
    Key(Key),
    LockId(LockId),
}

/// A live lock as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct LockRecord {
    pub key: String,
    pub lock_id: LockId,
    pub expires_at_ms: u64,
    pub acquired_at_ms: u64,
    pub fence: Fence,
}

/// Some of the live locks, and where to go on.
#[derive(Default)]
pub struct Page {
    pub locks: Vec<LockRecord>,
    /// What the next page is asked for with; nothing after the last one. A page may be empty and
    /// not be the last.
    pub next: Option<String>,
}

/// Tells when a key may have become free. It ends when it is dropped.
#[async_trait]
pub trait Watch: Send {
    /// Returns when an attempt to acquire makes sense: once as soon as the watch is in force, unless
    /// the key is then known to be locked still, and from then on after every release, expiry or
    /// take-over, also of other processes. Too often is harmless; what happened before the call is
    /// not forgotten. While the store cannot tell it waits, and goes on when the store can again
    /// (with one return, as something may have been missed). May be dropped at any await.
    async fn changed(&mut self);
}

/// Each operation is a single attempt, is bounded in time by the backend, and, for `acquire`,
/// `release` and `extend`, atomic in the store.
///
/// An operation's future is run to its end even when nobody waits for it any more, so that a
/// backend need not cope with being dropped half-way. An error after which an acquire may have
/// taken effect is marked [`outcome_unknown`](crate::error::Error::outcome_unknown).
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Makes what must be there before the first lock, for stores where that is a step of its own.
    async fn setup(&self) -> Result<()> {
        Ok(())
    }
    /// An id for the next acquire of this key. Where the store must be told by a lockId alone where
    /// the lock is, it says so.
    fn new_lock_id(&self, _key: &Key) -> LockId {
        LockId::generate()
    }
    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome>;
    /// The same for a caller that is known to the program by this number, for backends that are
    /// part of the program.
    fn acquire_for<'a>(
        &'a self,
        request: &'a AcquireRequest,
        _caller: u64,
    ) -> BoxFuture<'a, Result<AcquireOutcome>> {
        self.acquire(request)
    }
    async fn release(&self, lock_id: LockId) -> Result<ReleaseOutcome>;
    /// The same of a lock that this backend acquired, where knowing its key saves the store a step.
    fn release_of<'a>(
        &'a self,
        lock_id: LockId,
        _key: &'a Key,
    ) -> BoxFuture<'a, Result<ReleaseOutcome>> {
        self.release(lock_id)
    }
    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome>;
    async fn is_locked(&self, key: &Key) -> Result<bool>;
    /// Only live locks are found.
    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>>;
    /// Live locks, about `limit` of them, in any order. Only reads, and never blocks the store.
    async fn list(&self, _after: Option<&str>, _limit: usize) -> Result<Page> {
        Err(Error::internal("not yet"))
    }
    /// Takes the lock away from whoever holds it. Whether there was a live one.
    async fn force_release(&self, _key: &Key) -> Result<bool> {
        Err(Error::internal("not yet"))
    }
    /// Connects to nothing by itself: that is done when it is first asked. Nothing when the store
    /// has no way to tell.
    fn watch(&self, _key: &Key) -> Option<Box<dyn Watch>> {
        None
    }
    /// Whether operations that are started one after the other, on one thread, usually take effect
    /// in that order.
    fn keeps_order(&self) -> bool {
        false
    }
    /// Whether only this process uses the store, so that a release cannot wake many others.
    fn is_local(&self) -> bool {
        false
    }
    /// What there is to know of the store, for a person.
    async fn report(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
    /// What went wrong last while operations wait to be sent, such as a refused connection.
    fn obstacle(&self) -> Option<Error> {
        None
    }
    /// Whether operations are answered by threads of the backend's own, on which the caller may go
    /// on at once, and not by tasks of the runtime.
    fn has_own_threads(&self) -> bool {
        false
    }
    /// Gives up connections and files. Called once, after the last operation.
    async fn close(&self);
}

/// Where a backend tells what a person should know and no result can carry.
#[derive(Clone)]
pub struct Warnings {
    sink: Arc<dyn Fn(&str) + Send + Sync>,
    debug: bool,
}

impl Warnings {
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            sink: Arc::new(sink),
            // Now, on the thread that may change it, and not later on another.
            debug: std::env::var("SYNCGUARD_DEBUG").is_ok_and(|value| value == "true"),
        }
    }

    #[cfg(test)]
    pub fn with_debug(self, debug: bool) -> Self {
        Self { debug, ..self }
    }

    /// The text must not contain a key, a lockId or a credential.
    pub fn warn(&self, text: &str) {
        (self.sink)(text);
    }

    /// Tells it only to those who look for a cause (`SYNCGUARD_DEBUG=true`).
    pub fn debug(&self, text: &str) {
        if self.debug {
            self.warn(text);
        }
    }
}
