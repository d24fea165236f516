//! Wakes waiters when their lock may be free.
//!
//! One connection listens for all watches of a backend: the [`listener`]. [`proof`] finds out whether
//! notifications arrive on it.

mod listener;
mod proof;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connections::Connections;
use super::sql::key::StoredKey;
use crate::backend::watch::{Changes, KeyWatch, Registry, Watches};
use crate::backend::{Warnings, Watch};
use crate::lock::Key;

/// The watches of a backend. They end when it is dropped.
pub(super) struct Watcher(Arc<Shared>);

struct Shared {
    connections: Connections,
    warnings: Warnings,
    /// The quoted name of the lock table.
    table: String,
    runtime: Handle,
    state: Mutex<State>,
    keys_changed: Notify,
    closed: CancellationToken,
}

/// The server's hash of a key. Some if the sign that somebody waits for the key has been given.
type Sign = Option<i32>;

#[derive(Default)]
struct State {
    keys: Registry<String, Sign>,
    has_listener: bool,
    /// When the next connection may be opened.
    not_before: Option<Instant>,
    has_warned: bool,
}

impl Watcher {
    pub(super) fn new(connections: Connections, table: String, warnings: Warnings) -> Self {
        Self(Arc::new(Shared {
            connections,
            warnings,
            table,
            runtime: Handle::current(),
            state: Mutex::default(),
            keys_changed: Notify::new(),
            closed: CancellationToken::new(),
        }))
    }

    pub(super) fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        let StoredKey { key, .. } = StoredKey::of(key).ok()?;
        Some(Box::new(KeyWatch::new(&self.0, key)))
    }

    pub(super) fn close(&self) {
        self.0.closed.cancel();
        self.0.state.lock().keys.close();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.close();
    }
}

impl Watches for Shared {
    type Key = String;

    fn join(self: &Arc<Self>, key: &String) -> Option<Changes> {
        let mut state = self.state.lock();
        let (changes, sign) = state.keys.join(key.clone())?;
        if sign.is_some() {
            changes.mark_changed();
        } else {
            self.keys_changed.notify_one();
        }
        if !state.has_listener {
            state.has_listener = true;
            self.runtime.spawn(listener::run(Arc::clone(self)));
        }
        Some(changes)
    }

    fn leave(&self, key: &String, changes: &Changes) {
        let is_last = self.state.lock().keys.leave(key, changes);
        if is_last {
            self.keys_changed.notify_one();
        }
    }
}

impl Shared {
    /// Wakes the waiters of keys with this hash.
    fn wake_waiters(&self, hash: i32) {
        let has_hash = |_: &String, sign: &mut Sign| *sign == Some(hash);
        let wake_up = self.state.lock().keys.wake_up_where(has_hash);
        wake_up.send();
    }
}

impl State {
    /// Lets the listener end, unless somebody watches a key. Returns whether it may.
    fn stop_if_unwatched(&mut self) -> bool {
        self.has_listener = !self.keys.is_empty();
        !self.has_listener
    }

    fn forget_signs(&mut self) {
        for (_, sign) in self.keys.iter() {
            *sign = None;
        }
    }
}
