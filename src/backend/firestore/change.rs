//! Releases and extends locks. The document of a lockId is found in memory or by a query. The write
//! is conditional on the version in which ownership and liveness were verified.

use firestore::gcloud_sdk::google::firestore::v1::Write;
use prost_types::Timestamp;

use super::FirestoreBackend;
use super::attempt::Attempt;
use super::error::Failure;
use super::format::{Snapshot, delete, expiry_document, update, with_lock_id};
use super::known::{Known, State};
use crate::backend::Miss;
use crate::error::Result;
use crate::lock::time::{TIME_TOLERANCE_MS, is_live, system_now_ms};
use crate::lock::{LockId, Ttl};

#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Release,
    Extend(Ttl),
}

/// The lock's new expiry (0 after a release), or why nothing was changed.
type Changed = Result<u64, Miss>;

impl FirestoreBackend {
    pub(super) async fn change(&self, lock_id: LockId, change: Change) -> Result<Changed> {
        self.connections
            .run(|attempt| self.try_change(attempt, lock_id, change))
            .await
    }

    async fn try_change(
        &self,
        attempt: Attempt<'_>,
        lock_id: LockId,
        change: Change,
    ) -> Result<Changed, Failure> {
        let mut found = match self.known.take(lock_id) {
            Some(known) => match self.change_known(&attempt, lock_id, change, &known).await {
                // Somebody else wrote the document, or the unsettled acquire either took effect
                // before or can no longer take effect.
                Err(Failure::Changed) => Vec::from(attempt.read([known.document]).await?),
                Err(failure) => {
                    self.known.insert(lock_id, known, system_now_ms());
                    return Err(failure);
                }
                changed => return changed,
            },
            None => {
                let query = with_lock_id(&self.config.collection, lock_id);
                attempt.query(query).await?
            }
        };
        let mut removals = Vec::new();
        if found.len() > 1 {
            self.warn_of_duplicates(lock_id, found.len());
            let now_ms = system_now_ms();
            let (live, expired) = found.into_iter().partition(|lock| lock.is_live(now_ms));
            let expired: Vec<Snapshot> = expired;
            let remove = |lock: Snapshot| Some(delete(lock.name, lock.version?));
            removals = expired.into_iter().filter_map(remove).collect();
            found = live;
        }
        // If several are live, none is changed, since it is unknown which one is meant.
        let [lock] = match <[Snapshot; 1]>::try_from(found) {
            Ok(lock) => lock,
            Err(found) => {
                let has_expired = found.is_empty() && !removals.is_empty();
                if !removals.is_empty() {
                    attempt.commit(removals).await?;
                }
                return Ok(Err(if has_expired {
                    Miss::Expired
                } else {
                    Miss::NotFound
                }));
            }
        };
        let Some(version) = lock.version.filter(|_| lock.is_owned_by(lock_id)) else {
            return Ok(Err(Miss::NotFound));
        };
        if !lock.is_live(system_now_ms()) {
            return Ok(Err(Miss::Expired));
        }
        self.commit_change(&attempt, lock_id, change, lock.name, version, removals)
            .await
    }

    /// Writes without reading: the version proves that the document is the one that this process
    /// wrote, with its lockId and expiry.
    async fn change_known(
        &self,
        attempt: &Attempt<'_>,
        lock_id: LockId,
        change: Change,
        known: &Known,
    ) -> Result<Changed, Failure> {
        match &known.state {
            State::Held(version) => {
                if !is_live(known.expires_at_ms, system_now_ms(), TIME_TOLERANCE_MS) {
                    // Unless another program has extended it.
                    return Err(Failure::Changed);
                }
                let name = known.document.clone();
                self.commit_change(attempt, lock_id, change, name, *version, vec![])
                    .await
            }
            State::Unsettled(settle) => {
                attempt.commit(vec![Write::clone(settle)]).await?;
                Ok(Err(Miss::NotFound))
            }
        }
    }

    async fn commit_change(
        &self,
        attempt: &Attempt<'_>,
        lock_id: LockId,
        change: Change,
        name: String,
        version: Timestamp,
        mut writes: Vec<Write>,
    ) -> Result<Changed, Failure> {
        let now_ms = system_now_ms();
        let Change::Extend(ttl) = change else {
            writes.push(delete(name, version));
            attempt.commit(writes).await?;
            return Ok(Ok(0));
        };
        let expires_at_ms = now_ms + ttl.ms();
        let document = expiry_document(name.clone(), expires_at_ms);
        writes.insert(0, update(document, "expiresAtMs", version));
        let versions = attempt.commit(writes).await?;
        if let Some(Some(version)) = versions.first() {
            let known = Known {
                document: name,
                expires_at_ms,
                state: State::Held(*version),
            };
            self.known.insert(lock_id, known, now_ms);
        }
        Ok(Ok(expires_at_ms))
    }
}
