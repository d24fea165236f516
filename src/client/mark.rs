//! The mark of an exclusive waiter in a shared record. While it is live, the store grants no new shares, so
//! that the waiter gets the key once the granted shares have ended.

use std::sync::Arc;
use std::time::Duration;

use super::Client;
use super::host::Moment;
use crate::lock::{Key, LockId};

/// The longest time between two attempts that renew the mark: a third of its lease
/// ([`MARK_LEASE_MS`](crate::lock::share::MARK_LEASE_MS)).
const RENEW_AFTER: Duration = Duration::from_millis(700);

/// The mark of one wait. Dropping it removes the mark in the background.
pub(super) struct Marking {
    client: Arc<Client>,
    key: Key,
    id: LockId,
    renewed: Option<Moment>,
    is_left: bool,
}

impl Marking {
    pub fn new(client: &Arc<Client>, key: Key) -> Self {
        Self {
            client: Arc::clone(client),
            key,
            id: LockId::from_bytes(client.host.random_bytes()),
            renewed: None,
            is_left: true,
        }
    }

    /// Returns when the next attempt is due to leave or renew the mark.
    pub fn next_renewal(&self, now: Moment) -> Moment {
        self.renewed.map_or(now, |renewed| renewed + RENEW_AFTER)
    }

    /// Returns the id for an attempt that renews the mark.
    pub fn renewed(&mut self, now: Moment) -> LockId {
        self.renewed = Some(now);
        self.id
    }

    /// Forgets the mark. The waiter has the lock, whose record has replaced the one with the mark.
    pub fn forget(mut self) {
        self.is_left = false;
    }
}

impl Drop for Marking {
    fn drop(&mut self) {
        if !self.is_left || self.renewed.is_none() {
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
