//! Who waits for which key, and how they are told that it may be free.
//!
//! One connection listens for all of them, see [`listener`]; [`proof`] that it can.

mod listener;
mod proof;

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::client::Client;
use crate::backend::{Warnings, Watch};

/// The watches of a backend. They end with it.
pub(super) struct Watches(Arc<Shared>);

impl Watches {
    /// `table` is quoted.
    pub(super) fn new(client: Client, table: String, warnings: Warnings) -> Self {
        Self(Arc::new(Shared {
            client,
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
            news: None,
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
    client: Client,
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
    /// When the next connection may be made.
    not_before: Option<Instant>,
    has_complained: bool,
}

impl State {
    /// Whether nobody needs one any more.
    fn retire_listener(&mut self) -> bool {
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
    news: watch::Sender<()>,
    /// The server's hash of the key, while the sign that somebody waits is given.
    sign: Option<i32>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(self: &Arc<Self>, key: &str) -> watch::Receiver<()> {
        let mut state = self.state();
        if self.closed.is_cancelled() {
            // Without a sender there is never any news.
            return watch::channel(()).1;
        }
        let watched = state.keys.entry(key.to_owned()).or_insert_with(|| Watched {
            watches: 0,
            news: watch::Sender::new(()),
            sign: None,
        });
        watched.watches += 1;
        let mut news = watched.news.subscribe();
        if watched.sign.is_some() {
            news.mark_changed();
        } else if watched.watches == 1 {
            self.keys_changed.notify_one();
        }
        if !state.has_listener {
            state.has_listener = true;
            self.runtime.spawn(listener::run(Arc::clone(self)));
        }
        news
    }

    fn leave(&self, key: &str) {
        let mut state = self.state();
        if let Some(watched) = state.keys.get_mut(key) {
            watched.watches -= 1;
            if watched.watches == 0 {
                state.keys.remove(key);
                self.keys_changed.notify_one();
            }
        }
    }

    /// Whoever waits for a key with this hash should try.
    fn tell(&self, hash: i32) {
        for watched in self.state().keys.values() {
            if watched.sign == Some(hash) {
                watched.news.send_replace(());
            }
        }
    }
}

pub(super) struct KeyWatch {
    shared: Arc<Shared>,
    key: String,
    /// Nothing until it is first asked.
    news: Option<watch::Receiver<()>>,
}

#[async_trait]
impl Watch for KeyWatch {
    async fn changed(&mut self) {
        let (shared, key) = (&self.shared, &self.key);
        let news = self.news.get_or_insert_with(|| shared.join(key));
        if news.changed().await.is_err() {
            pending().await
        }
    }
}

impl Drop for KeyWatch {
    fn drop(&mut self) {
        if self.news.is_some() {
            self.shared.leave(&self.key);
        }
    }
}
