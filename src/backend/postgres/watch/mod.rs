//! Wakes waiters when their lock may be free.
//!
//! One connection listens for all watches of a backend: the [`listener`]. [`proof`] finds out whether
//! notifications arrive on it.

mod listener;
mod proof;

use std::collections::HashMap;
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
    connections: Arc<Connections>,
    warnings: Warnings,
    /// The quoted name of the lock table.
    table: String,
    runtime: Handle,
    state: Mutex<State>,
    keys_changed: Notify,
    closed: CancellationToken,
}

#[derive(Default)]
struct State {
    keys: Registry<String>,
    /// The keys with a sign that somebody waits for them, and the server's hashes of them.
    signs: HashMap<String, i32>,
    has_listener: bool,
    /// When the next connection may be opened.
    not_before: Option<Instant>,
    has_warned: bool,
}

impl Watcher {
    pub(super) fn new(connections: Arc<Connections>, table: String, warnings: Warnings) -> Self {
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
        let (changes, ()) = state.keys.join(key.clone())?;
        if state.signs.contains_key(key) {
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
        let mut state = self.state.lock();
        let State { keys, signs, .. } = &mut *state;
        let wake_up = keys.wake_up_where(|key, ()| signs.get(key) == Some(&hash));
        drop(state);
        wake_up.send();
    }
}
