//! Remembers the documents of locks that this process acquired, so that release and extend need no
//! query. Forgetting an entry is always safe.

use std::collections::HashMap;

use firestore::gcloud_sdk::google::firestore::v1::Write;
use parking_lot::Mutex;
use prost_types::Timestamp;

use crate::lock::LockId;
use crate::lock::time::{TIME_TOLERANCE_MS, is_live};

const MAX_ENTRIES: usize = 100_000;
const FIRST_SWEEP: usize = 1024;

#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) document: String,
    pub(super) expires_at_ms: u64,
    pub(super) state: State,
}

#[derive(Debug, Clone)]
pub(super) enum State {
    /// The lock was acquired. The document is at this version unless somebody else changed it.
    Held(Timestamp),
    /// The lock was acquired, and shares its document with others, who change it.
    Shared,
    /// The acquire may have taken effect, or may still do so. This write prevents the latter: it
    /// changes the counter, which the lost acquire expects to be unchanged. It fails if the acquire has
    /// already taken effect.
    Unsettled(Box<Write>),
}

#[derive(Default)]
pub(crate) struct KnownLocks(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    map: HashMap<LockId, Known>,
    sweep_at: usize,
}

impl KnownLocks {
    pub(super) fn insert(&self, lock_id: LockId, known: Known, now_ms: u64) {
        let mut entries = self.0.lock();
        if entries.map.len() >= entries.sweep_at.max(FIRST_SWEEP) {
            entries
                .map
                .retain(|_, known| is_live(known.expires_at_ms, now_ms, TIME_TOLERANCE_MS));
            entries.sweep_at = entries.map.len() * 2;
        }
        if entries.map.len() < MAX_ENTRIES {
            entries.map.insert(lock_id, known);
        }
    }

    /// Returns the name of the document in which this is one of several holders.
    pub(super) fn shared_document(&self, lock_id: LockId) -> Option<String> {
        let entries = self.0.lock();
        let known = entries.map.get(&lock_id)?;
        matches!(known.state, State::Shared).then(|| known.document.clone())
    }

    /// Removes and returns the entry. The caller inserts a new one after it has changed the lock.
    pub(super) fn take(&self, lock_id: LockId) -> Option<Known> {
        self.0.lock().map.remove(&lock_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_entries_are_removed_and_the_rest_is_limited() {
        let known = |expires_at_ms| Known {
            document: String::new(),
            expires_at_ms,
            state: State::Held(Timestamp::default()),
        };
        let locks = KnownLocks::default();
        let kept = LockId::generate();
        locks.insert(kept, known(1_000_000), 0);
        for now_ms in 0..10_000 {
            locks.insert(LockId::generate(), known(now_ms), now_ms);
        }
        assert!(locks.0.lock().map.len() <= 4 * FIRST_SWEEP);
        assert!(locks.take(kept).is_some());
        assert!(locks.take(kept).is_none());
        for _ in 0..MAX_ENTRIES + 10 {
            locks.insert(LockId::generate(), known(u64::MAX), 0);
        }
        assert!(locks.0.lock().map.len() <= MAX_ENTRIES);
    }
}
