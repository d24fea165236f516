//! Acquires a lock: reads the lock and its counter, then writes both if neither changed.
//!
//! This is the optimistic kind of Firestore transaction that the web and mobile SDKs run: the commit
//! carries the versions that were read, so nothing is locked on the server in between. If a process
//! dies half-way, nothing is left behind and nothing has to be rolled back.

use super::FirestoreBackend;
use super::attempt::Attempt;
use super::error::Failure;
use super::format::{DocumentIds, counter_document, lock_document, set};
use super::known::{Known, State};
use crate::backend::{AcquireOutcome, AcquireRequest, Holder, LockRecord};
use crate::lock::Fence;
use crate::lock::time::system_now_ms;

impl FirestoreBackend {
    pub(super) async fn try_acquire(
        &self,
        attempt: Attempt<'_>,
        request: &AcquireRequest,
    ) -> Result<AcquireOutcome, Failure> {
        let ids = DocumentIds::of(&request.key)?;
        let names = [
            attempt.document_name(&self.config.collection, &ids.lock),
            attempt.document_name(&self.config.fence_collection, &ids.counter),
        ];
        let [lock, counter] = attempt.read(names).await?;
        let now_ms = system_now_ms();
        if let (Some(free_in), Some(expires_at_ms)) = (lock.live_for(now_ms), lock.expires_at_ms())
        {
            let holder = Holder {
                free_in,
                expires_at_ms,
                is_shared: false,
                label: lock.label(),
            };
            return Ok(AcquireOutcome::Locked(Some(holder)));
        }
        let fence = Fence::after(counter.counter()?)?;
        let record = LockRecord {
            key: request.key.as_str().to_owned(),
            lock_id: request.lock_id,
            expires_at_ms: now_ms + request.ttl.ms(),
            acquired_at_ms: now_ms,
            fence,
            label: request.label.clone(),
            share: None,
        };
        let count = set(
            counter_document(counter.name, fence, &record.key),
            counter.version,
        );
        let hold = set(lock_document(lock.name.clone(), &record), lock.version);
        let committed = attempt.commit(vec![count.clone(), hold]).await;
        let state = match &committed {
            Ok(versions) => versions.get(1).copied().flatten().map(State::Held),
            Err(Failure::Failed(error)) if error.outcome_unknown => {
                Some(State::Unsettled(Box::new(count)))
            }
            Err(_) => None,
        };
        if let Some(state) = state {
            let known = Known {
                document: lock.name,
                expires_at_ms: record.expires_at_ms,
                state,
            };
            self.known.insert(request.lock_id, known, now_ms);
        }
        committed?;
        Ok(AcquireOutcome::Acquired {
            fence,
            expires_at_ms: record.expires_at_ms,
            share: None,
        })
    }
}
