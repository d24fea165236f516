//! The mark of an exclusive waiter in a shared record. While it is live, the store grants no new shares, so
//! that the waiter gets the key once the granted shares have ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Client;
use super::host::Moment;
#[cfg(test)]
use super::simulation::mutation::Mutation;
use crate::lock::{Key, LockId};

/// The longest time between two attempts that renew the mark: a third of its lease
/// ([`MARK_LEASE_MS`](crate::lock::share::MARK_LEASE_MS)).
const RENEW_AFTER: Duration = Duration::from_millis(700);

/// The mark of one wait. The wait owns it, and so does each attempt that leaves it. It is removed in the
/// background when the last owner is dropped, so that no attempt in flight leaves the mark again after
/// its removal.
pub(super) struct Mark {
    client: Arc<Client>,
    key: Key,
    pub id: LockId,
    /// Whether there may be something to remove.
    is_left: AtomicBool,
}

/// A wait that leaves a mark and renews it.
pub(super) struct Marking {
    mark: Arc<Mark>,
    renewed: Option<Moment>,
}

impl Marking {
    pub fn new(client: &Arc<Client>, key: Key) -> Self {
        let mark = Mark {
            client: Arc::clone(client),
            key,
            id: LockId::from_bytes(client.host.random_bytes()),
            is_left: AtomicBool::new(false),
        };
        Self {
            mark: Arc::new(mark),
            renewed: None,
        }
    }

    /// Returns when the next attempt is due to leave or renew the mark.
    pub fn next_renewal(&self, now: Moment) -> Moment {
        let after = RENEW_AFTER;
        #[cfg(test)]
        let after = Mutation::MarkNotRenewed.instead(after, after * 100);
        self.renewed.map_or(now, |renewed| renewed + after)
    }

    /// Returns the mark for an attempt that renews it.
    pub fn renewed(&mut self, now: Moment) -> Arc<Mark> {
        self.renewed = Some(now);
        self.mark.is_left.store(true, Ordering::Release);
        Arc::clone(&self.mark)
    }

    /// Forgets the mark. The waiter has the lock, whose record has replaced the one with the mark.
    pub fn forget(self) {
        self.mark.is_left.store(false, Ordering::Release);
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        #[cfg(test)]
        if Mutation::MarkForgotten.is_on() {
            return;
        }
        if !self.is_left.load(Ordering::Acquire) {
            return;
        }
        let (client, key, id) = (Arc::clone(&self.client), self.key.clone(), self.id);
        drop(self.client.in_background(async move {
            // If this fails, the mark ends with its lease.
            let _ = client.backend.unmark(&key, id).await;
            client.queues.released(&key);
        }));
    }
}
