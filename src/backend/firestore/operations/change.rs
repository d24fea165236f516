//! Releases and extends locks. The document of a lockId is found in memory or by a query. The write
//! is conditional on the version in which ownership and liveness were verified.

use firestore::gcloud_sdk::google::firestore::v1::Write;
use prost_types::Timestamp;

use super::known::{Known, State};
use crate::backend::Miss;
use crate::backend::firestore::FirestoreBackend;
use crate::backend::firestore::error::Failure;
use crate::backend::firestore::format::{Snapshot, delete, expiry_document, update, with_lock_id};
use crate::backend::firestore::session::Session;
use crate::error::Result;
use crate::lock::time::{TIME_TOLERANCE_MS, is_live, system_now_ms};
use crate::lock::{LockId, Ttl};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    Release,
    Extend(Ttl),
}

impl Change {
    fn expires_at_ms(self, now_ms: u64) -> u64 {
        match self {
            Self::Release => 0,
            Self::Extend(ttl) => now_ms + ttl.ms(),
        }
    }

    fn write(self, name: String, version: Timestamp, expires_at_ms: u64) -> Write {
        match self {
            Self::Release => delete(name, version),
            Self::Extend(_) => update(expiry_document(name, expires_at_ms), "expiresAtMs", version),
        }
    }
}

/// The lock's new expiry (0 after a release), or why nothing was changed.
type Changed = Result<u64, Miss>;

impl FirestoreBackend {
    pub(crate) async fn run_change(&self, lock_id: LockId, change: Change) -> Result<Changed> {
        let session = self.connections.session().await?;
        let mut document = None;
        if let Some(known) = self.known.take(lock_id) {
            let tried = session
                .retry(|| self.change_known(&session, lock_id, change, &known))
                .await;
            document = Some(known.document.clone());
            match tried {
                Ok(Some(changed)) => return Ok(changed),
                Ok(None) => {}
                Err(error) => {
                    self.known.insert(lock_id, known, system_now_ms());
                    return Err(error);
                }
            }
        }
        session
            .retry(|| self.change_stored(&session, lock_id, change, document.as_deref()))
            .await
    }

    /// Writes without reading: the version proves that the document is the one that this process
    /// wrote, with its lockId and expiry. Returns `None` if it has to be read after all.
    async fn change_known(
        &self,
        session: &Session<'_>,
        lock_id: LockId,
        change: Change,
        known: &Known,
    ) -> Result<Option<Changed>, Failure> {
        let changed = match &known.state {
            State::Held(_) if !is_live(known.expires_at_ms, system_now_ms(), TIME_TOLERANCE_MS) => {
                return Ok(None);
            }
            State::Held(version) => {
                let name = known.document.clone();
                self.commit_change(session, lock_id, change, name, *version, vec![])
                    .await
                    .map(Ok)
            }
            State::Unsettled(settle) => session
                .commit(vec![Write::clone(settle)])
                .await
                .map(|_| Err(Miss::NotFound)),
        };
        match changed {
            Ok(changed) => Ok(Some(changed)),
            // Somebody else wrote the document, or the unsettled acquire either took effect before or
            // can no longer take effect.
            Err(Failure::Changed) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// `document` is the name of the lock's document, if it is known.
    async fn change_stored(
        &self,
        session: &Session<'_>,
        lock_id: LockId,
        change: Change,
        document: Option<&str>,
    ) -> Result<Changed, Failure> {
        let mut found = match document {
            Some(name) => Vec::from(session.read([name]).await?),
            None => {
                let query = with_lock_id(&self.config.collection, lock_id);
                session.query(query).await?
            }
        };
        if found.len() > 1 {
            return self
                .change_duplicates(session, lock_id, change, found)
                .await;
        }
        match found.pop() {
            Some(lock) => {
                self.change_one(session, lock_id, change, lock, vec![])
                    .await
            }
            None => Ok(Err(Miss::NotFound)),
        }
    }

    /// Removes expired documents with the same lockId. If several are live, none is touched, since it is
    /// unknown which one is meant.
    async fn change_duplicates(
        &self,
        session: &Session<'_>,
        lock_id: LockId,
        change: Change,
        found: Vec<Snapshot>,
    ) -> Result<Changed, Failure> {
        self.warn_of_duplicates(lock_id, found.len());
        let now_ms = system_now_ms();
        let (mut live, expired): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|lock| lock.is_live(now_ms));
        let remove = expired
            .into_iter()
            .filter_map(|lock| Some(delete(lock.name, lock.version?)))
            .collect::<Vec<_>>();
        if let (1, Some(lock)) = (live.len(), live.pop()) {
            return self
                .change_one(session, lock_id, change, lock, remove)
                .await;
        }
        let all_expired = live.is_empty();
        if !remove.is_empty() {
            session.commit(remove).await?;
        }
        Ok(Err(if all_expired {
            Miss::Expired
        } else {
            Miss::NotFound
        }))
    }

    async fn change_one(
        &self,
        session: &Session<'_>,
        lock_id: LockId,
        change: Change,
        lock: Snapshot,
        more: Vec<Write>,
    ) -> Result<Changed, Failure> {
        let Some(version) = lock.version else {
            return Ok(Err(Miss::NotFound));
        };
        if !lock.is_owned_by(lock_id) {
            return Ok(Err(Miss::NotFound));
        }
        if !lock.is_live(system_now_ms()) {
            return Ok(Err(Miss::Expired));
        }
        self.commit_change(session, lock_id, change, lock.name, version, more)
            .await
            .map(Ok)
    }

    async fn commit_change(
        &self,
        session: &Session<'_>,
        lock_id: LockId,
        change: Change,
        name: String,
        version: Timestamp,
        mut writes: Vec<Write>,
    ) -> Result<u64, Failure> {
        let now_ms = system_now_ms();
        let expires_at_ms = change.expires_at_ms(now_ms);
        writes.insert(0, change.write(name.clone(), version, expires_at_ms));
        let versions = session.commit(writes).await?;
        if let (Change::Extend(_), Some(Some(version))) = (change, versions.first()) {
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
