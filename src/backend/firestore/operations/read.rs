//! `isLocked` and `lookup`, with one call each. Only the cleanup in the background writes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::backend::firestore::FirestoreBackend;
use crate::backend::firestore::format::{DocumentIds, Snapshot, delete, with_lock_id};
use crate::backend::firestore::session::Session;
use crate::backend::{LockRecord, LookupQuery};
use crate::error::Result;
use crate::lock::time::{TIME_TOLERANCE_MS, system_now_ms};
use crate::lock::{Key, LockId};

/// How long an expired document is kept, since its holder's extend may still arrive.
const CLEANUP_GUARD_MS: u64 = TIME_TOLERANCE_MS + 1000;
/// The most cleanups that may run at the same time.
const MAX_CLEANUPS: usize = 8;

impl FirestoreBackend {
    pub(crate) async fn run_is_locked(&self, key: &Key) -> Result<bool> {
        let session = self.connections.session().await?;
        let lock = self.read_lock(&session, key).await?;
        let now_ms = system_now_ms();
        let live = lock.is_live(now_ms);
        if !live && self.config.cleanup_in_is_locked {
            self.clean_up(lock, now_ms);
        }
        Ok(live)
    }

    pub(crate) async fn run_lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        let session = self.connections.session().await?;
        let lock = match query {
            LookupQuery::Key(key) => Some(self.read_lock(&session, key).await?),
            LookupQuery::LockId(lock_id) => self.find_lock(&session, *lock_id).await?,
        };
        match lock {
            Some(lock) if lock.is_live(system_now_ms()) => lock.record().map(Some),
            _ => Ok(None),
        }
    }

    pub(in crate::backend::firestore) async fn read_lock(
        &self,
        session: &Session<'_>,
        key: &Key,
    ) -> Result<Snapshot> {
        let name = self.lock_name(session, &DocumentIds::of(key)?.lock);
        let [lock] = session.retry(|| session.read([&name])).await?;
        Ok(lock)
    }

    /// Returns the live lock with this lockId. `None` also if there are several, since it is unknown which
    /// one is meant.
    async fn find_lock(&self, session: &Session<'_>, lock_id: LockId) -> Result<Option<Snapshot>> {
        let query = with_lock_id(&self.config.collection, lock_id);
        let mut found = session.retry(|| session.query(query.clone())).await?;
        if found.len() > 1 {
            self.warn_of_duplicates(lock_id, found.len());
        }
        let now_ms = system_now_ms();
        found.retain(|lock| lock.is_owned_by(lock_id) && lock.is_live(now_ms));
        Ok(if found.len() == 1 { found.pop() } else { None })
    }

    /// Removes an expired document in the background, if it is unchanged. Failures are ignored: the
    /// document is expired either way.
    fn clean_up(&self, lock: Snapshot, now_ms: u64) {
        let is_long_expired = lock
            .expires_at_ms()
            .is_some_and(|end| now_ms.saturating_sub(end) > CLEANUP_GUARD_MS);
        let Some(version) = lock.version.filter(|_| is_long_expired) else {
            return;
        };
        if self.cleanups.fetch_add(1, Ordering::Relaxed) >= MAX_CLEANUPS {
            self.cleanups.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let (connections, cleanups) = (Arc::clone(&self.connections), Arc::clone(&self.cleanups));
        tokio::spawn(async move {
            if let Ok(session) = connections.session().await {
                let _ = session.commit(vec![delete(lock.name, version)]).await;
            }
            cleanups.fetch_sub(1, Ordering::Relaxed);
        });
    }
}
