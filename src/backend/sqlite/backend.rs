//! The SQLite backend. It runs the operations of [`Backend`] on the connections to the lock file.

use async_trait::async_trait;

use super::config::{Durability, Settings, SqliteConfig};
use super::connections::Connections;
use super::report;
use super::store;
use crate::backend::report::Finding;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, Capabilities, ExtendOutcome, LockRecord, LookupQuery,
    Page, ReleaseOutcome, ReleaseRequest, Watch,
};
use crate::error::Result;
use crate::lock::{Key, LockId, Ttl};

pub struct SqliteBackend {
    durability: Durability,
    pub(super) connections: Connections,
}

impl SqliteBackend {
    /// Checks the options. The file is opened by the first operation.
    pub fn open(config: SqliteConfig) -> Result<Self> {
        Ok(Self::new(config.check()?))
    }

    pub(super) fn new(settings: Settings) -> Self {
        Self {
            durability: settings.durability,
            connections: Connections::new(settings),
        }
    }
}

#[async_trait]
impl Backend for SqliteBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            has_own_threads: true,
            supports_sharing: true,
            ..Capabilities::default()
        }
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let request = request.clone();
        let syncs = self.durability == Durability::Full;
        self.connections
            .writer
            .run(syncs, move |db, now_ms| {
                store::acquire(db, &request, now_ms)
            })
            .await
    }

    // A power cut ends every holder. If it also undoes the last releases and extensions, these locks
    // expire by their TTL, like those of any holder that died. Only fences must not be forgotten.
    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseOutcome> {
        let lock_id = request.lock_id;
        self.connections
            .writer
            .run(false, move |db, now_ms| store::release(db, lock_id, now_ms))
            .await
    }

    async fn unmark(&self, key: &Key, mark: LockId) -> Result<()> {
        let key = key.clone();
        self.connections
            .writer
            .run(false, move |db, now_ms| {
                store::unmark(db, &key, mark, now_ms)
            })
            .await
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        self.connections
            .writer
            .run(false, move |db, now_ms| {
                store::extend(db, lock_id, ttl, now_ms)
            })
            .await
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        let key = key.clone();
        self.connections
            .reader
            .run(false, move |db, now_ms| store::is_locked(db, &key, now_ms))
            .await
    }

    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        let query = query.clone();
        self.connections
            .reader
            .run(false, move |db, now_ms| store::lookup(db, &query, now_ms))
            .await
    }

    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        let after = after.map(str::to_owned);
        self.connections
            .reader
            .run(false, move |db, now_ms| {
                store::list(db, after.as_deref(), limit, now_ms)
            })
            .await
    }

    async fn force_release(&self, key: &Key) -> Result<bool> {
        let key = key.clone();
        self.connections
            .writer
            .run(false, move |db, now_ms| {
                store::force_release(db, &key, now_ms)
            })
            .await
    }

    async fn report(&self) -> Result<Vec<Finding>> {
        let durability = self.durability;
        self.connections
            .reader
            .run(false, move |db, _| report::findings(db, durability))
            .await
    }

    fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        self.connections.watcher.watch(key)
    }

    async fn close(&self) {
        self.connections.close().await;
    }
}
