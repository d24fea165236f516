//! The operations.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::store::Store;
use super::watch::KeyWatch;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, LockRecord, LookupQuery, Page,
    ReleaseOutcome, Watch,
};
use crate::error::Result;
use crate::lock::time::SteadyClock;
use crate::lock::{Key, LockId, Ttl};

pub struct MemoryBackend {
    pub(super) shared: Arc<Shared>,
}

/// What a watch needs too.
pub(super) struct Shared {
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
            shared: Arc::new(Shared {
                now_ms: Box::new(now_ms),
                store: Mutex::default(),
            }),
        }
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    pub(super) fn run<T>(&self, operation: impl FnOnce(&mut Store, u64) -> T) -> T {
        let (result, due) = {
            let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
            // In this order: a steady clock then does not run backwards from one to the next.
            let now_ms = (self.now_ms)();
            (operation(&mut store, now_ms), store.watches.take_due())
        };
        for watch in due {
            watch.notify_one();
        }
        result
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        self.shared
            .run(|store, now_ms| store.acquire(request, now_ms))
    }

    async fn release(&self, lock_id: LockId) -> Result<ReleaseOutcome> {
        Ok(self
            .shared
            .run(|store, now_ms| store.release(lock_id, now_ms)))
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        Ok(self
            .shared
            .run(|store, now_ms| store.extend(lock_id, ttl, now_ms)))
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        Ok(self
            .shared
            .run(|store, now_ms| store.find_key(key, now_ms).is_some()))
    }

    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        Ok(self.shared.run(|store, now_ms| match query {
            LookupQuery::Key(key) => store.find_key(key, now_ms),
            LookupQuery::LockId(lock_id) => store.find_id(*lock_id, now_ms),
        }))
    }

    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        Ok(self
            .shared
            .run(|store, now_ms| store.list(after, limit, now_ms)))
    }

    async fn force_release(&self, key: &Key) -> Result<bool> {
        Ok(self
            .shared
            .run(|store, now_ms| store.force_release(key, now_ms)))
    }

    fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        Some(Box::new(KeyWatch::new(&self.shared, key)))
    }

    fn is_local(&self) -> bool {
        true
    }

    async fn close(&self) {}
}
