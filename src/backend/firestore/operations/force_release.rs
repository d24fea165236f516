//! Releases a lock regardless of its holder.

use crate::backend::firestore::FirestoreBackend;
use crate::backend::firestore::error::Failure;
use crate::backend::firestore::format::{DocumentIds, delete};
use crate::backend::firestore::session::Session;
use crate::error::Result;
use crate::lock::Key;
use crate::lock::time::system_now_ms;

impl FirestoreBackend {
    pub(crate) async fn run_force_release(&self, key: &Key) -> Result<bool> {
        let session = self.connections.session().await?;
        let name = self.lock_name(&session, &DocumentIds::of(key)?.lock);
        session.retry(|| try_force_release(&session, &name)).await
    }
}

/// Deletes only the version that was read. If the document has changed, the caller retries.
async fn try_force_release(session: &Session<'_>, name: &str) -> Result<bool, Failure> {
    let [lock] = session.read([name]).await?;
    let live = lock.is_live(system_now_ms());
    let Some(version) = lock.version.filter(|_| live) else {
        return Ok(false);
    };
    session.commit(vec![delete(lock.name, version)]).await?;
    Ok(true)
}
