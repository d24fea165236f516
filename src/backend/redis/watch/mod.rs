//! Waiters are told by the server when a lock may be free, by client-side caching: a connection
//! that tracks gets a push when a key that it has read is changed, deleted or expires. So this works
//! with every writer of the format, and where nobody waits it costs nothing.
//!
//! - [`keys`]: what is watched, and what is known of it. Pure.
//! - [`tracker`]: the connection, from the first watch until a while after the last.
//!
//! The server remembers what the connection has read (the default mode). With `BCAST` it would push
//! every change of every lock, waited for or not, and `OPTIN` needs a command before each read.
//! `NOLOOP` is about own writes: there are none on this connection.

mod keys;
mod tracker;

use std::future::pending;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::servers::dialer::Dialer;
use super::servers::topology::Topology;
use crate::backend::Watch;
use keys::{WatchedKey, WatchedKeys};

/// All watches of a backend, by the shards of their locks. None of them works any more when this is
/// dropped.
pub(super) struct Watching(Vec<Arc<Shared>>);

/// Neither the backend nor its other connection is kept by those who have this.
struct Shared {
    topology: Arc<Topology>,
    shard: usize,
    dialer: Dialer,
    connect_timeout: Duration,
    /// That waiters poll: once for all shards.
    noted: Arc<AtomicBool>,
    state: Mutex<State>,
    /// There is a look to start, or nobody watches any more.
    work: Notify,
    closed: CancellationToken,
}

#[derive(Default)]
struct State {
    keys: WatchedKeys,
    has_tracker: bool,
}

impl Watching {
    pub(super) fn new(
        topology: &Arc<Topology>,
        shards: Range<usize>,
        dialer: &Dialer,
        connect_timeout: Duration,
    ) -> Self {
        let dialer = dialer.for_tracking();
        let noted = Arc::default();
        let shared = |shard| Shared {
            topology: Arc::clone(topology),
            shard,
            dialer: dialer.for_another(),
            connect_timeout,
            noted: Arc::clone(&noted),
            state: Mutex::default(),
            work: Notify::new(),
            closed: CancellationToken::new(),
        };
        Self(shards.map(shared).map(Arc::new).collect())
    }

    pub(super) fn watch(&self, shard: usize, lock_key: &str) -> Box<dyn Watch> {
        Box::new(RedisWatch {
            shared: Arc::clone(&self.0[shard]),
            key: lock_key.as_bytes().into(),
            changed: None,
        })
    }

    pub(super) fn close(&self) {
        for shared in &self.0 {
            shared.closed.cancel();
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn join(self: &Arc<Self>, key: &WatchedKey) -> watch::Receiver<()> {
        let mut state = self.state.lock();
        let changed = state.keys.join(key);
        if !std::mem::replace(&mut state.has_tracker, true) {
            tokio::spawn(tracker::run(Arc::clone(self)));
        }
        self.work.notify_one();
        changed
    }

    fn leave(&self, key: &WatchedKey) {
        self.state.lock().keys.leave(key);
        self.work.notify_one();
    }

    /// Whether the tracker has nothing to do: the next watch starts another.
    fn dismiss_tracker(&self) -> bool {
        let mut state = self.state.lock();
        state.has_tracker = !state.keys.is_empty();
        !state.has_tracker
    }
}

struct RedisWatch {
    shared: Arc<Shared>,
    key: WatchedKey,
    /// Nothing before it is first asked.
    changed: Option<watch::Receiver<()>>,
}

#[async_trait]
impl Watch for RedisWatch {
    async fn changed(&mut self) {
        let changed = match &mut self.changed {
            Some(changed) => changed,
            none => none.insert(self.shared.join(&self.key)),
        };
        if changed.changed().await.is_err() {
            pending().await
        }
    }
}

impl Drop for RedisWatch {
    fn drop(&mut self) {
        if self.changed.take().is_some() {
            self.shared.leave(&self.key);
        }
    }
}
