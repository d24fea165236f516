//! Changes documents: reads the lock and, to acquire, its counter, then writes what has changed if neither
//! has another version.
//!
//! This is the optimistic kind of Firestore transaction that the web and mobile SDKs run: the commit
//! carries the versions that were read, so nothing is locked on the server in between. If a process
//! dies half-way, nothing is left behind and nothing has to be rolled back.

use firestore::gcloud_sdk::google::firestore::v1::Write;
use prost_types::Timestamp;

use super::FirestoreBackend;
use super::attempt::Attempt;
use super::batch::{BatchedChange, Kind};
use super::error::Failure;
use super::format::{DocumentIds, Snapshot, counter_document, delete, lock_document, set};
use super::holding::{Grant, Holding, Written};
use super::known::{Known, State};
use crate::lock::time::system_now_ms;

impl FirestoreBackend {
    pub(super) async fn try_changes(
        &self,
        attempt: Attempt<'_>,
        ids: &DocumentIds,
        changes: &[Box<dyn BatchedChange>],
    ) -> Result<(), Failure> {
        let name = attempt.document_name(&self.config.collection, &ids.lock);
        let counter = attempt.document_name(&self.config.fence_collection, &ids.counter);
        let acquires = changes
            .iter()
            .any(|change| change.kind() == Kind::Acquisition);
        let [lock, counter] = if acquires {
            attempt.read([name, counter]).await?
        } else {
            let [lock] = attempt.read([name]).await?;
            [lock, Snapshot::missing(counter)]
        };
        let now_ms = system_now_ms();
        let mut holding = Holding::read(&lock, counter.counter(), now_ms);
        for change in changes {
            change.apply(&mut holding);
        }
        let (grants, written) = holding.into_written();
        let count = grants.last().map(|last| {
            let document = counter_document(counter.name, last.fence, &last.key);
            set(document, counter.version)
        });
        let hold = written.and_then(|written| write_lock(&lock, written));
        let writes: Vec<Write> = count.clone().into_iter().chain(hold).collect();
        if writes.is_empty() {
            return Ok(());
        }
        let committed = attempt.commit(writes).await;
        for grant in grants {
            if let Some(state) = state_of(&grant, &committed, count.as_ref()) {
                let known = Known {
                    document: lock.name.clone(),
                    expires_at_ms: grant.expires_at_ms,
                    state,
                };
                self.known.insert(grant.lock_id, known, now_ms);
            }
        }
        committed.map(|_| ())
    }
}

/// `None` if there is nothing to delete.
fn write_lock(lock: &Snapshot, written: Written) -> Option<Write> {
    let name = lock.name.clone();
    match written {
        Written::Exclusive(record) => Some(set(lock_document(name, &record), lock.version)),
        Written::Shared(record) => Some(set(record.to_document(name), lock.version)),
        Written::Nothing => Some(delete(name, lock.version?)),
    }
}

/// Returns what this process knows of a lock after the commit that granted it. `None` if it was not
/// granted. `count` is the write of the counter, which comes first in the commit.
fn state_of(
    grant: &Grant,
    committed: &Result<Vec<Option<Timestamp>>, Failure>,
    count: Option<&Write>,
) -> Option<State> {
    match committed {
        Ok(_) if grant.is_shared => Some(State::Shared),
        Ok(versions) => versions.last().copied().flatten().map(State::Held),
        Err(Failure::Failed(error)) if error.outcome_unknown => {
            Some(State::Unsettled(Box::new(count?.clone())))
        }
        Err(_) => None,
    }
}
