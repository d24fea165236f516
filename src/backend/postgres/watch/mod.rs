//! Tells waiters that a lock may be free.
//!
//! One connection listens for all watches of a backend, see [`listener`]. [`proof`] finds out whether
//! notifications arrive on it.

mod listener;
mod proof;

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connections::Connections;
use crate::backend::{Warnings, Watch};

/// The watches of a backend. They end with it.
pub(super) struct Watches(Arc<Shared>);

impl Watches {
    /// `table` is the quoted name of the lock table.
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

    pub(super) fn watch(&self, key: String) -> KeyWatch {
        KeyWatch {
            shared: Arc::clone(&self.0),
            key,
            changes: None,
        }
    }

    pub(super) fn close(&self) {
        self.0.closed.cancel();
        self.0.state().keys.clear();
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.close();
    }
}

struct Shared {
    connections: Connections,
    warnings: Warnings,
    table: String,
    runtime: Handle,
    state: Mutex<State>,
    keys_changed: Notify,
    closed: CancellationToken,
}

#[derive(Default)]
struct State {
    keys: HashMap<String, Watched>,
    has_listener: bool,
    /// When the next connection may be opened.
    not_before: Option<Instant>,
    has_warned: bool,
}

impl State {
    /// Returns whether nothing is watched, so that the listener ends.
    fn stop_listener_if_unwatched(&mut self) -> bool {
        self.has_listener = !self.keys.is_empty();
        !self.has_listener
    }

    fn forget_signs(&mut self) {
        for watched in self.keys.values_mut() {
            watched.sign = None;
        }
    }
}

struct Watched {
    watches: usize,
    changes: watch::Sender<()>,
    /// The server's hash of the key. Some if the sign that somebody waits has been given.
    sign: Option<i32>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn subscribe(self: &Arc<Self>, key: &str) -> watch::Receiver<()> {
        let mut state = self.state();
        if self.closed.is_cancelled() {
            // A channel without a sender never reports a change.
            return watch::channel(()).1;
        }
        let watched = state.keys.entry(key.to_owned()).or_insert_with(|| Watched {
            watches: 0,
            changes: watch::Sender::new(()),
            sign: None,
        });
        watched.watches += 1;
        let mut changes = watched.changes.subscribe();
        if watched.sign.is_some() {
            changes.mark_changed();
        } else if watched.watches == 1 {
            self.keys_changed.notify_one();
        }
        if !state.has_listener {
            state.has_listener = true;
            self.runtime.spawn(listener::run(Arc::clone(self)));
        }
        changes
    }

    fn unsubscribe(&self, key: &str) {
        let mut state = self.state();
        if let Some(watched) = state.keys.get_mut(key) {
            watched.watches -= 1;
            if watched.watches == 0 {
                state.keys.remove(key);
                self.keys_changed.notify_one();
            }
        }
    }

    /// Wakes the waiters of keys with this hash.
    fn notify_waiters(&self, hash: i32) {
        for watched in self.state().keys.values() {
            if watched.sign == Some(hash) {
                watched.changes.send_replace(());
            }
        }
    }
}

pub(super) struct KeyWatch {
    shared: Arc<Shared>,
    key: String,
    /// None until the watch is first used.
    changes: Option<watch::Receiver<()>>,
}

#[async_trait]
impl Watch for KeyWatch {
    async fn changed(&mut self) {
        let (shared, key) = (&self.shared, &self.key);
        let changes = self.changes.get_or_insert_with(|| shared.subscribe(key));
        if changes.changed().await.is_err() {
            pending().await
        }
    }
}

impl Drop for KeyWatch {
    fn drop(&mut self) {
        if self.changes.is_some() {
            self.shared.unsubscribe(&self.key);
        }
    }
}
