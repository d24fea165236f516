//! Tells waiters when their key may be free.
//!
//! What other processes do are commits to the file. One thread sees them for all waiters, on a
//! connection of its own: the [`lookout`], woken by a [`signal`] and at a [`pace`] of its own. It
//! runs while somebody waits, and a little longer.

mod lookout;
mod pace;
mod signal;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use async_trait::async_trait;
use tokio::sync::{Notify, oneshot};

use super::config::Settings;
use crate::backend::Watch;
use crate::lock::Key;
use crate::lock::key::{KeyBudget, storage_key};
use lookout::Lookout;
use signal::{Bell, Signal};

pub(super) struct Watcher(Arc<Shared>);

struct Shared {
    settings: Settings,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By their addresses.
    waiting: HashMap<usize, Arc<Waiter>>,
    lookout: Option<Running>,
    closed: bool,
}

struct Running {
    bell: Bell,
    ended: oneshot::Receiver<()>,
}

struct Waiter {
    key: String,
    told: Notify,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The lockId that was last seen.
    holder: Option<String>,
    stage: Stage,
}

/// What has happened since the waiter began to wait.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    New,
    LookedUp,
    Told,
}

impl Watcher {
    pub(super) fn new(settings: Settings) -> Self {
        Self(Arc::new(Shared {
            settings,
            state: Mutex::default(),
        }))
    }

    pub(super) fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        let waiter = Waiter {
            key: storage_key("", key.as_str(), KeyBudget::POSTGRES).ok()?,
            told: Notify::new(),
            known: Mutex::default(),
        };
        Some(Box::new(KeyWatch {
            shared: Arc::clone(&self.0),
            waiter: Arc::new(waiter),
        }))
    }

    #[cfg(test)]
    pub(super) fn is_running(&self) -> bool {
        self.0.lock().lookout.is_some()
    }

    /// Returns when the file is closed, or when that takes too long.
    pub(super) async fn close(&self) {
        let lookout = {
            let mut state = self.0.lock();
            state.closed = true;
            state.lookout.take()
        };
        if let Some(Running { bell, ended }) = lookout {
            bell.ring();
            let _ = tokio::time::timeout(self.0.settings.operation_timeout, ended).await;
        }
    }
}

struct KeyWatch {
    shared: Arc<Shared>,
    waiter: Arc<Waiter>,
}

#[async_trait]
impl Watch for KeyWatch {
    async fn changed(&mut self) {
        let _waiting = Waiting::enter(&self.shared, &self.waiter);
        // Keeps one call to come: what is told while nobody listens is not lost.
        self.waiter.told.notified().await;
    }
}

struct Waiting<'a> {
    shared: &'a Shared,
    waiter: &'a Arc<Waiter>,
}

impl<'a> Waiting<'a> {
    fn enter(shared: &'a Arc<Shared>, waiter: &'a Arc<Waiter>) -> Self {
        waiter.known().stage = Stage::New;
        let mut state = shared.lock();
        state
            .waiting
            .insert(Arc::as_ptr(waiter).addr(), Arc::clone(waiter));
        if state.lookout.is_none() && !state.closed {
            // If that fails nobody is told, and the next one tries again.
            state.lookout = shared.start().ok();
        }
        if let Some(lookout) = &state.lookout {
            lookout.bell.ring();
        }
        Self { shared, waiter }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let address = Arc::as_ptr(self.waiter).addr();
        self.shared.lock().waiting.remove(&address);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(self: &Arc<Self>) -> std::io::Result<Running> {
        let (bell, signal) = Signal::new()?;
        let (end, ended) = oneshot::channel();
        let shared = Arc::clone(self);
        thread::Builder::new()
            .name("syncguard-watch".to_owned())
            .spawn(move || {
                Lookout::new(shared, signal).run();
                let _ = end.send(());
            })?;
        Ok(Running { bell, ended })
    }

    /// Those who wait. Nothing after the end.
    fn waiting(&self) -> Option<Vec<Arc<Waiter>>> {
        let state = self.lock();
        (!state.closed).then(|| state.waiting.values().cloned().collect())
    }

    /// Lets the thread go, unless somebody waits.
    fn dismiss(&self) -> bool {
        let mut state = self.lock();
        let idle = state.waiting.is_empty();
        if idle {
            state.lookout = None;
        }
        idle
    }
}

impl Waiter {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether to look up its lock, when something was committed or when nothing was.
    fn wants_look(&self, committed: bool) -> bool {
        match self.known().stage {
            Stage::New => true,
            Stage::LookedUp => committed,
            Stage::Told => false,
        }
    }

    /// Tells it when the key is free, or another's than before: returns whether that is so.
    fn tell(&self, holder: Option<String>) -> bool {
        let tell = {
            let mut known = self.known();
            let tell = match (&known.holder, &holder) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(before), Some(now)) => before != now,
            };
            known.holder = holder;
            known.stage = if tell { Stage::Told } else { Stage::LookedUp };
            tell
        };
        if tell {
            // Whoever is told may go on right here, so nothing is locked.
            self.told.notify_one();
        }
        tell
    }
}
