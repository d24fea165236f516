//! The operations.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::store::Store;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, LockRecord, LookupQuery, ReleaseOutcome,
};
use crate::error::Result;
use crate::lock::time::SteadyClock;
use crate::lock::{Key, LockId, Ttl};

pub struct MemoryBackend {
    clock: SteadyClock,
    store: Mutex<Store>,
}

impl MemoryBackend {
    pub fn new() -> Self {
        Self {
            clock: SteadyClock::start(),
            store: Mutex::default(),
        }
    }

    /// The store and the time, taken in this order: under the lock, time does not run backwards.
    fn store(&self) -> (MutexGuard<'_, Store>, u64) {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        (store, self.clock.now_ms())
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let (mut store, now_ms) = self.store();
        store.acquire(request, now_ms)
    }

    async fn release(&self, lock_id: LockId) -> Result<ReleaseOutcome> {
        let (mut store, now_ms) = self.store();
        Ok(store.release(lock_id, now_ms))
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        let (mut store, now_ms) = self.store();
        Ok(store.extend(lock_id, ttl, now_ms))
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        let (store, now_ms) = self.store();
        Ok(store.find_key(key, now_ms).is_some())
    }

    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        let (store, now_ms) = self.store();
        Ok(match query {
            LookupQuery::Key(key) => store.find_key(key, now_ms),
            LookupQuery::LockId(lock_id) => store.find_id(*lock_id, now_ms),
        })
    }

    async fn close(&self) {}
}
