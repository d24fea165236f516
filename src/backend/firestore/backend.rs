//! Implements the trait `Backend`.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;

use parking_lot::Mutex;

use super::config::FirestoreConfig;
use super::connections::Connections;
use super::format::DocumentIds;
use super::operations::{Change, KnownLocks};
use super::report;
use super::session::Session;
use super::watch::{WatchPolicy, Watcher};
use crate::backend::report::Finding;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, LockRecord, LookupQuery, Page,
    ReleaseOutcome, ReleaseRequest, Warnings, Watch,
};
use crate::error::{Error, Result};
use crate::lock::hash::hash_key;
use crate::lock::{Key, LockId, Ttl};

pub struct FirestoreBackend {
    pub(super) config: Arc<FirestoreConfig>,
    pub(super) connections: Arc<Connections>,
    pub(super) known: KnownLocks,
    watcher: Watcher,
    warnings: Warnings,
    /// The last lockId whose duplicates were reported, so that heartbeats do not repeat the warning.
    duplicated: Mutex<Option<LockId>>,
    pub(super) cleanups: Arc<AtomicUsize>,
}

impl FirestoreBackend {
    /// Checks the options. The connection is made on first use.
    pub fn open(config: FirestoreConfig, warnings: Warnings) -> Result<Self> {
        Self::open_with(config, warnings, WatchPolicy::default())
    }

    pub(super) fn open_with(
        config: FirestoreConfig,
        warnings: Warnings,
        policy: WatchPolicy,
    ) -> Result<Self> {
        config.validate()?;
        let config = Arc::new(config);
        let connections = Arc::new(Connections::new(Arc::clone(&config), warnings.clone()));
        Ok(Self {
            watcher: Watcher::new(&connections, warnings.clone(), policy),
            connections,
            config,
            known: KnownLocks::default(),
            warnings,
            duplicated: Mutex::default(),
            cleanups: Arc::default(),
        })
    }

    pub(super) fn lock_name(&self, session: &Session<'_>, id: &str) -> String {
        session.document_name(&self.config.collection, id)
    }

    pub(super) fn warn_of_duplicates(&self, lock_id: LockId, count: usize) {
        let last = self.duplicated.lock().replace(lock_id);
        if last != Some(lock_id) {
            self.warnings.warn(&format!(
                "{count} lock documents in Firestore have the same lockId (hash {}). Another program writes to the lock collection: find it, or give it another collection",
                hash_key(lock_id.as_str())
            ));
        }
    }
}

#[async_trait]
impl Backend for FirestoreBackend {
    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        self.run_acquire(request).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseOutcome> {
        let changed = self.run_change(request.lock_id, Change::Release).await?;
        Ok(match changed {
            Ok(_) => ReleaseOutcome::Released,
            Err(miss) => ReleaseOutcome::Missed(miss),
        })
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        let changed = self.run_change(lock_id, Change::Extend(ttl)).await?;
        Ok(match changed {
            Ok(expires_at_ms) => ExtendOutcome::Extended { expires_at_ms },
            Err(miss) => ExtendOutcome::Missed(miss),
        })
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        self.run_is_locked(key).await
    }

    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        self.run_lookup(query).await
    }

    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        self.run_list(after, limit).await
    }

    async fn force_release(&self, key: &Key) -> Result<bool> {
        self.run_force_release(key).await
    }

    async fn report(&self) -> Result<Vec<Finding>> {
        let session = self.connections.session().await?;
        // The answer to any read carries the server's time.
        self.read_lock(&session, &Key::new("report")?).await?;
        let offset = self.connections.clock.last();
        Ok(report::findings(&self.config, &session.place(), offset))
    }

    fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        let ids = DocumentIds::of(key).ok()?;
        Some(self.watcher.watch(ids.lock))
    }

    fn obstacle(&self) -> Option<Error> {
        self.connections.obstacle()
    }

    async fn close(&self) {
        self.watcher.close();
        self.connections.close();
    }
}
