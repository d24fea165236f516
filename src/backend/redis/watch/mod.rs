//! Wakes waiters when a lock may be free, by Redis' client-side caching: the server pushes a message
//! to a connection when a key that this connection has read is changed, deleted or expires. So it works
//! with every writer of the stored format, and costs nothing where nobody waits.
//!
//! - [`keys`]: the watched keys, and what is known of each.
//! - [`tracker`]: the task that serves the connection, from the first watch until a while after the
//!   last one.
//!
//! The connection uses the default mode of `CLIENT TRACKING`, in which the server remembers what was
//! read. With `BCAST` it would push the changes of all locks, even if nobody waits for them. `OPTIN`
//! needs a command before each read. `NOLOOP` concerns writes of the same connection, and this one
//! never writes.

mod keys;
mod tracker;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::servers::route::Route;
use crate::backend::Watch;
use crate::backend::watch::{Changes, KeyWatch, Watches};
use keys::{WatchedKey, WatchedKeys};

/// The watches of a backend, for each shard. They end when this is dropped.
pub(super) struct Watcher(Vec<Arc<Shared>>);

/// The watches of one shard. They keep neither the backend nor its other connections alive.
struct Shared {
    route: Route,
    /// Whether the user was told that waiters poll. Once is enough for all shards.
    has_reported_polling: Arc<AtomicBool>,
    state: Mutex<State>,
    /// Notified when a watch joins or leaves.
    watches_changed: Notify,
    closed: CancellationToken,
}

#[derive(Default)]
struct State {
    keys: WatchedKeys,
    has_tracker: bool,
}

impl Watcher {
    /// `routes` are for connections on which servers report changes.
    pub(super) fn new(routes: impl Iterator<Item = Route>) -> Self {
        let has_reported_polling = Arc::default();
        let shared = |route| Shared {
            route,
            has_reported_polling: Arc::clone(&has_reported_polling),
            state: Mutex::default(),
            watches_changed: Notify::new(),
            closed: CancellationToken::new(),
        };
        Self(routes.map(shared).map(Arc::new).collect())
    }

    pub(super) fn watch(&self, shard: usize, lock_key: &str) -> Box<dyn Watch> {
        let key = WatchedKey::from(lock_key.as_bytes());
        Box::new(KeyWatch::new(&self.0[shard], key))
    }

    pub(super) fn close(&self) {
        for shared in &self.0 {
            shared.state.lock().keys.close();
            shared.closed.cancel();
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.close();
    }
}

impl Watches for Shared {
    type Key = WatchedKey;

    fn join(self: &Arc<Self>, key: &WatchedKey) -> Option<Changes> {
        let mut state = self.state.lock();
        let changes = state.keys.join(key)?;
        if !std::mem::replace(&mut state.has_tracker, true) {
            tokio::spawn(tracker::run(Arc::clone(self)));
        }
        self.watches_changed.notify_one();
        Some(changes)
    }

    fn leave(&self, key: &WatchedKey, changes: &Changes) {
        self.state.lock().keys.leave(key, changes);
        self.watches_changed.notify_one();
    }
}

impl Shared {
    /// Lets the tracker end if nobody watches a key. Returns whether it must. The next watch starts
    /// another one.
    fn stop_if_unwatched(&self) -> bool {
        let mut state = self.state.lock();
        state.has_tracker = !state.keys.is_empty();
        !state.has_tracker
    }
}
