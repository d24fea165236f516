//! Releases and extends locks. The document of a lockId is found in memory or by a query. The write
//! is conditional on the version in which ownership and liveness were verified.

use firestore::gcloud_sdk::google::firestore::v1::Write;
use prost_types::Timestamp;

use super::FirestoreBackend;
use super::attempt::Attempt;
use super::batch::Kind;
use super::error::Failure;
use super::format::{Snapshot, delete, expiry_document, id_of, update, with_holder, with_lock_id};
use super::known::{Known, State};
use crate::backend::{HOLDER_BITS, Miss};
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

/// What became of a change that began without knowing whether the lock is exclusive.
enum Tried {
    Done(Changed),
    /// The lock may be one of several in the document with this name.
    Shared(String),
}

impl FirestoreBackend {
    pub(super) async fn change(&self, lock_id: LockId, change: Change) -> Result<Changed> {
        let tried = match self.known.shared_document(lock_id) {
            Some(document) => Tried::Shared(document),
            None => {
                let attempts = self
                    .connections
                    .run(|attempt| self.try_change(attempt, lock_id, change));
                attempts.await?
            }
        };
        match tried {
            Tried::Done(changed) => Ok(changed),
            Tried::Shared(document) => self.change_share(document, lock_id, change).await,
        }
    }

    /// Changes one of the locks that share a document.
    async fn change_share(
        &self,
        document: String,
        lock_id: LockId,
        change: Change,
    ) -> Result<Changed> {
        let kind = match change {
            Change::Release => Kind::Removal,
            Change::Extend(_) => Kind::Extension,
        };
        let changing = self.change_together(id_of(&document), kind, move |holding| {
            Ok(match change {
                Change::Release => holding.release(lock_id).map(|()| 0),
                Change::Extend(ttl) => holding.extend(lock_id, ttl),
            })
        });
        let changed = changing.await?;
        match (change, changed) {
            (Change::Extend(_), Ok(expires_at_ms)) => {
                let known = Known {
                    document,
                    expires_at_ms,
                    state: State::Shared,
                };
                self.known.insert(lock_id, known, system_now_ms());
            }
            _ => drop(self.known.take(lock_id)),
        }
        Ok(changed)
    }

    /// Finds the documents in which this lockId is the holder, or one of them.
    pub(super) async fn find(
        &self,
        attempt: &Attempt<'_>,
        lock_id: LockId,
    ) -> Result<Vec<Snapshot>, Failure> {
        let collection = &self.config.collection;
        let query = if lock_id.spare_bits() == HOLDER_BITS {
            with_holder(collection, lock_id)
        } else {
            with_lock_id(collection, lock_id)
        };
        attempt.query(query).await
    }

    async fn try_change(
        &self,
        attempt: Attempt<'_>,
        lock_id: LockId,
        change: Change,
    ) -> Result<Tried, Failure> {
        let mut found = match self.known.take(lock_id) {
            Some(known) => match self.change_known(&attempt, lock_id, change, &known).await {
                // What is known no longer helps, so read the document: somebody else wrote it, the
                // lock has expired by our clock, or the unsettled acquire has either taken effect or
                // can no longer do so.
                Err(Failure::Changed) => Vec::from(attempt.read([known.document]).await?),
                Err(failure) => {
                    self.known.insert(lock_id, known, system_now_ms());
                    return Err(failure);
                }
                tried => return tried,
            },
            None => self.find(&attempt, lock_id).await?,
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
                return Ok(Tried::Done(Err(if has_expired {
                    Miss::Expired
                } else {
                    Miss::NotFound
                })));
            }
        };
        if lock.is_shared() {
            if !removals.is_empty() {
                attempt.commit(removals).await?;
            }
            return Ok(Tried::Shared(lock.name));
        }
        let Some(version) = lock.version.filter(|_| lock.is_owned_by(lock_id)) else {
            return Ok(Tried::Done(Err(Miss::NotFound)));
        };
        if !lock.is_live(system_now_ms()) {
            return Ok(Tried::Done(Err(Miss::Expired)));
        }
        let expires_at_ms = self
            .commit_change(&attempt, lock_id, change, lock.name, version, removals)
            .await?;
        Ok(Tried::Done(Ok(expires_at_ms)))
    }

    /// Writes without reading: the version proves that the document is the one that this process
    /// wrote, with its lockId and expiry.
    async fn change_known(
        &self,
        attempt: &Attempt<'_>,
        lock_id: LockId,
        change: Change,
        known: &Known,
    ) -> Result<Tried, Failure> {
        match &known.state {
            State::Held(version) => {
                if !is_live(known.expires_at_ms, system_now_ms(), TIME_TOLERANCE_MS) {
                    // Unless another program has extended it.
                    return Err(Failure::Changed);
                }
                let name = known.document.clone();
                let expires_at_ms = self
                    .commit_change(attempt, lock_id, change, name, *version, vec![])
                    .await?;
                Ok(Tried::Done(Ok(expires_at_ms)))
            }
            State::Shared => Ok(Tried::Shared(known.document.clone())),
            State::Unsettled(settle) => {
                attempt.commit(vec![Write::clone(settle)]).await?;
                Ok(Tried::Done(Err(Miss::NotFound)))
            }
        }
    }

    /// Returns the lock's new expiry, or 0 after a release.
    async fn commit_change(
        &self,
        attempt: &Attempt<'_>,
        lock_id: LockId,
        change: Change,
        name: String,
        version: Timestamp,
        mut writes: Vec<Write>,
    ) -> Result<u64, Failure> {
        let now_ms = system_now_ms();
        let Change::Extend(ttl) = change else {
            writes.push(delete(name, version));
            attempt.commit(writes).await?;
            return Ok(0);
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
        Ok(expires_at_ms)
    }
}
