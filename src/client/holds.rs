//! The registry of a client's holds.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::hold::Hold;
use crate::lock::{Key, LockId};
use crate::map::FastMap;

#[derive(Default)]
pub(super) struct Holds {
    held: Mutex<Held>,
    changed: Notify,
}

/// The holds in two maps. There may be very many, so an operation on one hold must not scan all of them.
#[derive(Default)]
struct Held {
    by_id: FastMap<LockId, Arc<Hold>>,
    /// A key rarely has more than one: a hold that was lost and has not ended, and its successor.
    by_key: FastMap<Key, Vec<Arc<Hold>>>,
}

impl Holds {
    pub fn insert(&self, hold: Arc<Hold>) {
        let mut held = self.held.lock();
        let of_key = held.by_key.entry(hold.key.clone()).or_default();
        of_key.push(Arc::clone(&hold));
        held.by_id.insert(hold.lock_id, hold);
    }

    pub fn get(&self, lock_id: LockId) -> Option<Arc<Hold>> {
        self.held.lock().by_id.get(&lock_id).cloned()
    }

    pub fn remove(&self, lock_id: LockId) {
        let mut held = self.held.lock();
        let Some(hold) = held.by_id.remove(&lock_id) else {
            return;
        };
        if let Entry::Occupied(mut of_key) = held.by_key.entry(hold.key.clone()) {
            of_key.get_mut().retain(|other| other.lock_id != lock_id);
            if of_key.get().is_empty() {
                of_key.remove();
            }
        }
        if held.by_id.is_empty() {
            self.changed.notify_waiters();
        }
    }

    /// Returns the holds of this key.
    pub fn of(&self, key: &Key) -> Vec<Arc<Hold>> {
        self.held
            .lock()
            .by_key
            .get(key)
            .cloned()
            .unwrap_or_default()
    }

    /// Returns whether a hold of this key matches.
    pub fn any_of(&self, key: &Key, matches: impl Fn(&Hold) -> bool) -> bool {
        let held = self.held.lock();
        let of_key = held.by_key.get(key);
        of_key.is_some_and(|holds| holds.iter().any(|hold| matches(hold)))
    }

    pub fn all(&self) -> Vec<Arc<Hold>> {
        self.held.lock().by_id.values().cloned().collect()
    }

    pub async fn until_empty(&self) {
        loop {
            let changed = self.changed.notified();
            if self.held.lock().by_id.is_empty() {
                return;
            }
            changed.await;
        }
    }

    #[cfg(test)]
    pub fn keys(&self) -> usize {
        self.held.lock().by_key.len()
    }
}
