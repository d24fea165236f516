//! The operations of the memory backend.

use parking_lot::Mutex;
use std::sync::Arc;

use async_trait::async_trait;

use super::store::Store;
use crate::backend::watch::KeyWatch;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, Capabilities, ExtendOutcome, LockRecord, LookupQuery,
    Page, ReleaseOutcome, ReleaseRequest, Watch,
};
use crate::error::Result;
use crate::lock::time::SteadyClock;
use crate::lock::{Key, LockId, Ttl};

pub struct MemoryBackend {
    pub(super) shared: Arc<Shared>,
}

/// The part that watches share.
pub(super) struct Shared {
    now_ms: Box<dyn Fn() -> u64 + Send + Sync>,
    store: Mutex<Store>,
}

impl MemoryBackend {
    pub fn new() -> Self {
        let clock = SteadyClock::start();
        Self::with_clock(move || clock.now_ms())
    }

    /// Uses a clock that the caller drives. It returns Unix time in milliseconds. It is read in the
    /// middle of an operation, so it must not call this backend.
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
            let mut store = self.store.lock();
            // The clock is read under the lock, so that it never goes back from one operation to the next.
            let now_ms = (self.now_ms)();
            (operation(&mut store, now_ms), store.watches.take_due())
        };
        for wake_up in due {
            wake_up.send();
        }
        result
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            is_local: true,
            supports_sharing: true,
            ..Capabilities::default()
        }
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        self.shared
            .run(|store, now_ms| store.acquire(request, now_ms))
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseOutcome> {
        Ok(self
            .shared
            .run(|store, now_ms| store.release(request.lock_id, now_ms)))
    }

    async fn unmark(&self, key: &Key, mark: LockId) -> Result<()> {
        self.shared.run(|store, _| store.unmark(key, mark));
        Ok(())
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
        Some(Box::new(KeyWatch::new(&self.shared, key.clone())))
    }

    async fn close(&self) {}
}
