//! The operations. Those that release and extend locks are in [`change`](super::change).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;

use super::attempt::Attempt;
use super::batch::{Batches, Kind};
use super::change::Change;
use super::config::FirestoreConfig;
use super::connections::Connections;
use super::format::{DocumentIds, Snapshot, delete, page};
use super::holding::Holding;
use super::known::KnownLocks;
use super::report;
use super::watch::{WatchPolicy, Watcher};
use crate::backend::report::Finding;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, Capabilities, ExtendOutcome, HOLDER_BITS, LockRecord,
    LookupQuery, Page, ReleaseOutcome, ReleaseRequest, Warnings, Watch,
};
use crate::error::{Error, Result};
use crate::lock::hash::hash_key;
use crate::lock::time::{TIME_TOLERANCE_MS, system_now_ms};
use crate::lock::{Key, LockId, Ttl};

/// How long an expired document is kept, since its holder's extend may still arrive.
const CLEANUP_GUARD_MS: u64 = TIME_TOLERANCE_MS + 1000;
/// The most cleanups that may run at the same time.
const MAX_CLEANUPS: usize = 8;
/// The most documents that one call lists.
const MAX_PAGE: usize = 500;

pub struct FirestoreBackend {
    pub(super) config: Arc<FirestoreConfig>,
    pub(super) connections: Arc<Connections>,
    pub(super) known: KnownLocks,
    pub(super) batches: Batches,
    watcher: Watcher,
    warnings: Warnings,
    /// The last lockId whose duplicates were reported, so that heartbeats do not repeat the warning.
    duplicated: Mutex<Option<LockId>>,
    cleanups: Arc<AtomicUsize>,
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
            batches: Batches::default(),
            warnings,
            duplicated: Mutex::default(),
            cleanups: Arc::default(),
        })
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

    async fn read_lock(&self, key: &Key) -> Result<Snapshot> {
        let id = DocumentIds::of(key)?.lock;
        let read = self.connections.run(async |attempt| {
            let name = attempt.document_name(&self.config.collection, &id);
            attempt.read([name]).await
        });
        let [lock] = read.await?;
        Ok(lock)
    }

    /// Returns the live lock with this lockId. `None` also if there are several, since it is unknown which
    /// one is meant.
    async fn find_lock(&self, lock_id: LockId) -> Result<Option<LockRecord>> {
        let known = self.known.shared_document(lock_id);
        let find = self.connections.run(async |attempt| match &known {
            Some(document) => Ok(Vec::from(attempt.read([document.clone()]).await?)),
            None => self.find(&attempt, lock_id).await,
        });
        let found = find.await?;
        if found.len() > 1 {
            self.warn_of_duplicates(lock_id, found.len());
        }
        let now_ms = system_now_ms();
        let mut locks = Vec::new();
        for lock in &found {
            if lock.is_shared() || lock.is_owned_by(lock_id) {
                locks.extend(lock.locks(now_ms)?);
            }
        }
        locks.retain(|lock| lock.lock_id == lock_id);
        Ok(if locks.len() == 1 { locks.pop() } else { None })
    }

    /// Removes an expired document in the background, if it is unchanged and without a waiter's mark.
    /// Failures are ignored: the document is expired either way.
    fn clean_up(&self, lock: Snapshot, now_ms: u64) {
        let is_long_expired = lock
            .expires_at_ms()
            .is_some_and(|end| now_ms.saturating_sub(end) > CLEANUP_GUARD_MS);
        let mark = lock.shared().and_then(|record| record.mark);
        let is_marked = mark.is_some_and(|mark| mark.is_live(now_ms));
        let Some(version) = lock.version.filter(|_| is_long_expired && !is_marked) else {
            return;
        };
        if self.cleanups.fetch_add(1, Ordering::Relaxed) >= MAX_CLEANUPS {
            self.cleanups.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let (connections, cleanups) = (Arc::clone(&self.connections), Arc::clone(&self.cleanups));
        let write = delete(lock.name, version);
        tokio::spawn(async move {
            let commit = async |attempt: Attempt<'_>| attempt.commit(vec![write.clone()]).await;
            let _ = connections.run(commit).await;
            cleanups.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

#[async_trait]
impl Backend for FirestoreBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            supports_sharing: true,
            shared_lock_id_bits: Some(HOLDER_BITS),
            ..Capabilities::default()
        }
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let id = DocumentIds::of(&request.key)?.lock;
        let request = request.clone();
        // Only a waiter that met holders who share the key has a mark.
        let is_shared = request.access.is_shared() || request.mark.is_some();
        let acquire = move |holding: &mut Holding| holding.acquire(&request);
        if is_shared {
            self.change_together(&id, Kind::Acquisition, acquire).await
        } else {
            self.change_alone(&id, Kind::Acquisition, acquire).await
        }
    }

    async fn unmark(&self, key: &Key, mark: LockId) -> Result<()> {
        let id = DocumentIds::of(key)?.lock;
        let unmark = move |holding: &mut Holding| {
            holding.unmark(mark);
            Ok(())
        };
        self.change_together(&id, Kind::Removal, unmark).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseOutcome> {
        let changed = self.change(request.lock_id, Change::Release).await?;
        Ok(match changed {
            Ok(_) => ReleaseOutcome::Released,
            Err(miss) => ReleaseOutcome::Missed(miss),
        })
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        let changed = self.change(lock_id, Change::Extend(ttl)).await?;
        Ok(match changed {
            Ok(expires_at_ms) => ExtendOutcome::Extended { expires_at_ms },
            Err(miss) => ExtendOutcome::Missed(miss),
        })
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        let lock = self.read_lock(key).await?;
        let now_ms = system_now_ms();
        let live = lock.is_live(now_ms);
        if !live && self.config.cleanup_in_is_locked {
            self.clean_up(lock, now_ms);
        }
        Ok(live)
    }

    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        match query {
            LookupQuery::Key(key) => {
                let locks = self.read_lock(key).await?.locks(system_now_ms())?;
                let last = locks.into_iter().max_by_key(|lock| lock.expires_at_ms);
                Ok(last)
            }
            LookupQuery::LockId(lock_id) => self.find_lock(*lock_id).await,
        }
    }

    /// Lists the locks in the order of their documents' ids. Expired documents are read and left out, so
    /// a page may be shorter than requested. All holders of a key are on one page, so it may also be
    /// longer.
    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        let limit = limit.clamp(1, MAX_PAGE);
        let collection = &self.config.collection;
        let list = self.connections.run(async |attempt| {
            let after = after.map(|id| attempt.document_name(collection, id));
            attempt.query(page(collection, after, limit as i32)).await
        });
        let found = list.await?;
        let next = found.last().filter(|_| found.len() == limit);
        let next = next.map(Snapshot::id).map(str::to_owned);
        let now_ms = system_now_ms();
        let mut locks = Vec::new();
        for lock in &found {
            locks.extend(lock.locks(now_ms)?);
        }
        Ok(Page { locks, next })
    }

    /// Deletes only the version that was read. If the document has changed meanwhile, it is read again.
    async fn force_release(&self, key: &Key) -> Result<bool> {
        let id = DocumentIds::of(key)?.lock;
        let release = self.connections.run(async |attempt| {
            let name = attempt.document_name(&self.config.collection, &id);
            let [lock] = attempt.read([name]).await?;
            let live = lock.is_live(system_now_ms());
            let Some(version) = lock.version.filter(|_| live) else {
                return Ok(false);
            };
            attempt.commit(vec![delete(lock.name, version)]).await?;
            Ok(true)
        });
        release.await
    }

    async fn report(&self) -> Result<Vec<Finding>> {
        // The answer to any read carries the server's time.
        self.read_lock(&Key::new("report")?).await?;
        let offset = self.connections.clock.last();
        Ok(report::findings(
            &self.config,
            &self.connections.place(),
            offset,
        ))
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
