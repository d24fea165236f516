//! Wakes waiters when their key is freed.

use std::sync::Arc;

use super::backend::Shared;
use crate::backend::watch::{Changes, Registry, WakeUp, Watches};
use crate::lock::Key;

/// The watched keys, and the wake-ups that are due. Costs nothing while nobody watches.
#[derive(Default)]
pub(super) struct WatchedKeys {
    registry: Registry<Key>,
    due: Vec<WakeUp>,
}

impl WatchedKeys {
    /// Called when a lock of this key ends.
    pub(super) fn freed(&mut self, key: &Key) {
        self.due.extend(self.registry.wake_up(key));
    }

    /// Returns the wake-ups to send once the store is unlocked.
    pub(super) fn take_due(&mut self) -> Vec<WakeUp> {
        std::mem::take(&mut self.due)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.registry.is_empty() && self.due.is_empty()
    }
}

impl Watches for Shared {
    type Key = Key;

    fn join(self: &Arc<Self>, key: &Key) -> Option<Changes> {
        self.run(|store, now_ms| {
            // A shared key may have room for another holder.
            let is_locked = store
                .find_key(key, now_ms)
                .is_some_and(|lock| lock.share.is_none());
            let (changes, _) = store.watches.registry.join(key.clone())?;
            if !is_locked {
                changes.mark_changed();
            }
            Some(changes)
        })
    }

    fn leave(&self, key: &Key, changes: &Changes) {
        self.run(|store, _| store.watches.registry.leave(key, changes));
    }
}
