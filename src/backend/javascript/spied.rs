//! A native backend of which the program has replaced some operations, to observe or to change them. The
//! replaced ones are questions to the program. The others stay native, so that a lock of which only the
//! acquire is observed is kept alive even while the event loop is blocked.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::JavascriptBackend;
use crate::backend::report::Finding;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, Capabilities, ExtendOutcome, LockRecord, LookupQuery,
    Page, ReleaseOutcome, ReleaseRequest, Watch,
};
use crate::error::{Error, Result};
use crate::lock::{Key, LockId, Ttl};

#[derive(Debug, Clone, Copy)]
pub struct Replaced {
    pub acquire: bool,
    pub release: bool,
    pub extend: bool,
}

pub struct SpiedBackend {
    original: Arc<dyn Backend>,
    program: JavascriptBackend,
    replaced: Replaced,
    /// The lockIds that the program has given to locks, by the ids in our questions.
    acquired: Mutex<HashMap<LockId, LockId>>,
}

impl SpiedBackend {
    pub fn new(original: Arc<dyn Backend>, program: JavascriptBackend, replaced: Replaced) -> Self {
        Self {
            original,
            program,
            replaced,
            acquired: Mutex::default(),
        }
    }

    fn stored_as(&self, lock_id: LockId) -> LockId {
        self.acquired
            .lock()
            .get(&lock_id)
            .copied()
            .unwrap_or(lock_id)
    }
}

#[async_trait]
impl Backend for SpiedBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            keeps_order: false,
            has_own_threads: false,
            ..self.original.capabilities()
        }
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        if !self.replaced.acquire {
            return self.original.acquire(request).await;
        }
        let acquired = self.program.ask_for_lock(request).await?;
        if let (true, Some(lock_id)) = (acquired.ok, &acquired.lock_id)
            && let Ok(lock_id) = LockId::parse(lock_id)
        {
            self.acquired.lock().insert(request.lock_id, lock_id);
        }
        acquired.outcome()
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseOutcome> {
        let lock_id = request.lock_id;
        let outcome = if self.replaced.release {
            self.program.release(request).await?
        } else {
            let stored = self.stored_as(lock_id);
            self.original.release(stored.into()).await?
        };
        self.acquired.lock().remove(&lock_id);
        Ok(outcome)
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        if self.replaced.extend {
            self.program.extend(lock_id, ttl).await
        } else {
            self.original.extend(self.stored_as(lock_id), ttl).await
        }
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        self.original.is_locked(key).await
    }

    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        self.original.lookup(query).await
    }

    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        self.original.list(after, limit).await
    }

    async fn force_release(&self, key: &Key) -> Result<bool> {
        self.original.force_release(key).await
    }

    async fn report(&self) -> Result<Vec<Finding>> {
        self.original.report().await
    }

    fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        self.original.watch(key)
    }

    fn obstacle(&self) -> Option<Error> {
        self.original.obstacle()
    }

    /// Does nothing, because the original backend is closed by its own client.
    async fn close(&self) {}
}
