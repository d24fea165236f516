//! What this process knows of locks that it acquired: with it, release and extend need no query.
//! Forgetting an entry is always safe.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use googleapis_tonic_google_firestore_v1::google::firestore::v1::Write;
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
    /// Acquired, and the document is at this version unless somebody else changed it.
    Held(Timestamp),
    /// The acquire may have happened, or may happen yet. This write makes that impossible: it
    /// changes the counter that the lost acquire expects unchanged. It fails if that is too late.
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
        let mut entries = self.lock();
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

    /// Taken out: whoever changes the lock puts back what it then knows.
    pub(super) fn take(&self, lock_id: LockId) -> Option<Known> {
        self.lock().map.remove(&lock_id)
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_is_swept_and_the_rest_is_bounded() {
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
        assert!(locks.lock().map.len() <= 4 * FIRST_SWEEP);
        assert!(locks.take(kept).is_some());
        assert!(locks.take(kept).is_none());
        for _ in 0..MAX_ENTRIES + 10 {
            locks.insert(LockId::generate(), known(u64::MAX), 0);
        }
        assert!(locks.lock().map.len() <= MAX_ENTRIES);
    }
}
