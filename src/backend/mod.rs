//! A backend stores locks. It gets validated keys, ids and TTLs and answers with plain facts;
//! validation, waiting, undoing and the shape of results are the callers' business.

pub mod firestore;
pub mod memory;
pub mod postgres;
pub mod redis;
pub mod sqlite;
pub mod tls;

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::lock::{Fence, Key, LockId, Ttl};

#[derive(Debug, Clone)]
pub struct AcquireRequest {
    pub key: Key,
    pub lock_id: LockId,
    pub ttl: Ttl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcquireOutcome {
    Acquired { fence: Fence, expires_at_ms: u64 },
    Locked,
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
    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome>;
    async fn release(&self, lock_id: LockId) -> Result<ReleaseOutcome>;
    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome>;
    async fn is_locked(&self, key: &Key) -> Result<bool>;
    /// Only live locks are found.
    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>>;
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
pub struct Warnings(Arc<dyn Fn(&str) + Send + Sync>);

impl Warnings {
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// The text must not contain a key, a lockId or a credential.
    pub fn warn(&self, text: &str) {
        (self.0)(text);
    }
}
