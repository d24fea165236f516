//! Acquires a lock: reads the lock and its counter, then writes both if neither changed.
//!
//! This is the optimistic kind of Firestore transaction that the web and mobile SDKs run: the commit
//! carries the versions that were read, so nothing is locked on the server in between. If a process
//! dies half-way, nothing is left behind and nothing has to be rolled back.

use super::known::{Known, State};
use crate::backend::firestore::FirestoreBackend;
use crate::backend::firestore::error::Failure;
use crate::backend::firestore::format::{DocumentIds, counter_document, lock_document, set};
use crate::backend::firestore::session::Session;
use crate::backend::{AcquireOutcome, AcquireRequest, Holder, LockRecord};
use crate::error::Result;
use crate::lock::Fence;
use crate::lock::time::system_now_ms;

impl FirestoreBackend {
    pub(crate) async fn run_acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let ids = DocumentIds::of(&request.key)?;
        let session = self.connections.session().await?;
        let names = Names {
            lock: self.lock_name(&session, &ids.lock),
            counter: session.document_name(&self.config.fence_collection, &ids.counter),
        };
        session
            .retry(|| self.try_acquire(&session, request, &names))
            .await
    }

    async fn try_acquire(
        &self,
        session: &Session<'_>,
        request: &AcquireRequest,
        names: &Names,
    ) -> Result<AcquireOutcome, Failure> {
        let [lock, counter] = session.read([&names.lock, &names.counter]).await?;
        let now_ms = system_now_ms();
        if let (Some(free_in), Some(expires_at_ms)) = (lock.live_for(now_ms), lock.expires_at_ms())
        {
            let holder = Holder {
                free_in,
                expires_at_ms,
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
        };
        let count = set(
            counter_document(counter.name, fence, &record.key),
            counter.version,
        );
        let writes = vec![
            count.clone(),
            set(lock_document(lock.name, &record), lock.version),
        ];
        let committed = session.commit(writes).await;
        let state = match &committed {
            Ok(versions) => versions.get(1).copied().flatten().map(State::Held),
            Err(Failure::Failed(error)) if error.outcome_unknown => {
                Some(State::Unsettled(Box::new(count)))
            }
            Err(_) => None,
        };
        if let Some(state) = state {
            let known = Known {
                document: names.lock.clone(),
                expires_at_ms: record.expires_at_ms,
                state,
            };
            self.known.insert(request.lock_id, known, now_ms);
        }
        committed?;
        Ok(AcquireOutcome::Acquired {
            fence,
            expires_at_ms: record.expires_at_ms,
        })
    }
}

struct Names {
    lock: String,
    counter: String,
}
