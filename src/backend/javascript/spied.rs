//! A backend of ours of which the program has replaced some operations, to observe or to change
//! them: these are asked for, the others stay as they were.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use super::JavascriptBackend;
use crate::backend::report::Finding;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, LockRecord, LookupQuery, Page,
    ReleaseOutcome, Watch,
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
    /// By the id under which the program was asked for it.
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

    fn acquired(&self) -> MutexGuard<'_, HashMap<LockId, LockId>> {
        self.acquired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored_as(&self, lock_id: LockId) -> LockId {
        self.acquired().get(&lock_id).copied().unwrap_or(lock_id)
    }
}

#[async_trait]
impl Backend for SpiedBackend {
    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        self.acquire_for(request, 0).await
    }

    fn acquire_for<'a>(
        &'a self,
        request: &'a AcquireRequest,
        caller: u64,
    ) -> BoxFuture<'a, Result<AcquireOutcome>> {
        if !self.replaced.acquire {
            return self.original.acquire_for(request, caller);
        }
        Box::pin(async move {
            let acquired = self.program.ask_for_lock(request, caller).await?;
            if let (true, Some(lock_id)) = (acquired.ok, &acquired.lock_id)
                && let Ok(lock_id) = LockId::parse(lock_id)
            {
                self.acquired().insert(request.lock_id, lock_id);
            }
            acquired.outcome()
        })
    }

    async fn release(&self, lock_id: LockId) -> Result<ReleaseOutcome> {
        let outcome = if self.replaced.release {
            self.program.release(lock_id).await?
        } else {
            self.original.release(self.stored_as(lock_id)).await?
        };
        self.acquired().remove(&lock_id);
        Ok(outcome)
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        if self.replaced.extend {
            self.program.extend(lock_id, ttl).await
        } else {
            self.original.extend(self.stored_as(lock_id), ttl).await
        }
    }

    fn new_lock_id(&self, key: &Key) -> LockId {
        self.original.new_lock_id(key)
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

    fn is_local(&self) -> bool {
        self.original.is_local()
    }

    fn obstacle(&self) -> Option<Error> {
        self.original.obstacle()
    }

    /// It is not this one's to close.
    async fn close(&self) {}
}
