//! Lists the live locks of the collection, page by page in the order of their documents' ids.
//! Expired documents are read and left out, so a page may be shorter than requested.

use crate::backend::Page;
use crate::backend::firestore::FirestoreBackend;
use crate::backend::firestore::format::{Snapshot, page};
use crate::error::Result;
use crate::lock::time::system_now_ms;

const MAX_PAGE: usize = 500;

impl FirestoreBackend {
    pub(crate) async fn run_list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        let session = self.connections.session().await?;
        let limit = limit.clamp(1, MAX_PAGE);
        let after = after.map(|id| self.lock_name(&session, id));
        let query = page(&self.config.collection, after, limit as i32);
        let found = session.retry(|| session.query(query.clone())).await?;
        let next = found.last().filter(|_| found.len() == limit).map(id);
        let now_ms = system_now_ms();
        let live = found.iter().filter(|lock| lock.is_live(now_ms));
        Ok(Page {
            locks: live.map(Snapshot::record).collect::<Result<_>>()?,
            next,
        })
    }
}

fn id(lock: &Snapshot) -> String {
    let (_, id) = lock.name.rsplit_once('/').unwrap_or_default();
    id.to_owned()
}
