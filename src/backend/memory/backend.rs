//! The operations.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::store::Store;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, LockRecord, LookupQuery, Page,
    ReleaseOutcome,
};
use crate::error::Result;
use crate::lock::time::SteadyClock;
use crate::lock::{Key, LockId, Ttl};

pub struct MemoryBackend {
    now_ms: Box<dyn Fn() -> u64 + Send + Sync>,
    store: Mutex<Store>,
}

impl MemoryBackend {
    pub fn new() -> Self {
        let clock = SteadyClock::start();
        Self::with_clock(move || clock.now_ms())
    }

    /// For a clock that somebody else drives. It is asked in the middle of an operation, so it must
    /// not come back to this backend, and gives Unix time in milliseconds.
    pub fn with_clock(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self {
            now_ms: Box::new(now_ms),
            store: Mutex::default(),
        }
    }

    /// The store and the time, taken in this order: under the lock, a steady clock does not run
    /// backwards.
    fn store(&self) -> (MutexGuard<'_, Store>, u64) {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        (store, (self.now_ms)())
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

    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        let (store, now_ms) = self.store();
        Ok(store.list(after, limit, now_ms))
    }

    async fn force_release(&self, key: &Key) -> Result<bool> {
        let (mut store, now_ms) = self.store();
        Ok(store.force_release(key, now_ms))
    }

    async fn close(&self) {}
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn request(key: &Key) -> AcquireRequest {
        AcquireRequest {
            key: key.clone(),
            lock_id: LockId::generate(),
            ttl: Ttl::from_number(5000.0).unwrap(),
        }
    }

    #[tokio::test]
    async fn expiry_follows_the_clock_it_is_given() {
        let now = Arc::new(AtomicU64::new(1000));
        let clock = Arc::clone(&now);
        let backend = MemoryBackend::with_clock(move || clock.load(Ordering::Relaxed));
        let key = Key::new("k").unwrap();
        let AcquireOutcome::Acquired { expires_at_ms, .. } =
            backend.acquire(&request(&key)).await.unwrap()
        else {
            panic!("nobody else holds it")
        };
        assert_eq!(expires_at_ms, 6000);
        now.store(6999, Ordering::Relaxed);
        assert!(backend.is_locked(&key).await.unwrap());
        now.store(7000, Ordering::Relaxed);
        assert!(!backend.is_locked(&key).await.unwrap());
        // A clock may also be put back.
        now.store(0, Ordering::Relaxed);
        assert!(backend.is_locked(&key).await.unwrap());
    }
}
