//! The operations.

use async_trait::async_trait;

use super::client::Client;
use super::config::SqliteConfig;
use super::report;
use super::store;
use crate::backend::report::Finding;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, LockRecord, LookupQuery, Page,
    ReleaseOutcome, Watch,
};
use crate::error::Result;
use crate::lock::{Key, LockId, Ttl};

pub struct SqliteBackend {
    pub(super) client: Client,
}

impl SqliteBackend {
    /// Checks the options. The file is opened by the first operation.
    pub fn open(config: SqliteConfig) -> Result<Self> {
        Ok(Self {
            client: Client::new(config.check()?),
        })
    }
}

#[async_trait]
impl Backend for SqliteBackend {
    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let request = request.clone();
        self.client
            .write_durably(move |db, now_ms| store::acquire(db, &request, now_ms))
            .await
    }

    // A power cut ends every holder. If it also undoes the last releases and extensions, these locks
    // are over when their TTL is, as with any holder that died: only fences must not be forgotten.
    async fn release(&self, lock_id: LockId) -> Result<ReleaseOutcome> {
        self.client
            .write(move |db, now_ms| store::release(db, lock_id, now_ms))
            .await
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        self.client
            .write(move |db, now_ms| store::extend(db, lock_id, ttl, now_ms))
            .await
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        let key = key.clone();
        self.client
            .read(move |db, now_ms| store::is_locked(db, &key, now_ms))
            .await
    }

    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        let query = query.clone();
        self.client
            .read(move |db, now_ms| store::lookup(db, &query, now_ms))
            .await
    }

    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        let after = after.map(str::to_owned);
        self.client
            .read(move |db, now_ms| store::list(db, after.as_deref(), limit, now_ms))
            .await
    }

    async fn force_release(&self, key: &Key) -> Result<bool> {
        let key = key.clone();
        self.client
            .write(move |db, now_ms| store::force_release(db, &key, now_ms))
            .await
    }

    async fn report(&self) -> Result<Vec<Finding>> {
        let durability = self.client.durability;
        self.client
            .read(move |db, _| report::findings(db, durability))
            .await
    }

    fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        self.client.watch(key)
    }

    fn has_own_threads(&self) -> bool {
        true
    }

    async fn close(&self) {
        self.client.close().await;
    }
}
