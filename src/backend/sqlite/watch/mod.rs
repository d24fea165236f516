//! Wakes waiters when their key may be free.
//!
//! Other processes change locks by commits to the file. One thread sees these commits for all waiters,
//! on a connection of its own: the [`observer`]. A [`signal`] wakes it, and its [`pace`] limits what it
//! costs. It runs while a key is watched, and a little longer.

mod observer;
mod pace;
mod signal;

use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::config::Settings;
use super::occupancy::Occupancy;
use super::store::stored_key;
use crate::backend::Watch;
use crate::backend::watch::{Changes, KeyWatch, Registry, Watches};
use crate::lock::Key;
use observer::Observer;
use signal::{Signal, WakeHandle};

pub(super) struct Watcher(Arc<Shared>);

struct Shared {
    settings: Settings,
    state: Mutex<State>,
}

type StoredKey = Arc<str>;

#[derive(Default)]
struct State {
    keys: Registry<StoredKey, Known>,
    observer: Option<Running>,
}

/// The observer's thread.
struct Running {
    wake_handle: WakeHandle,
    ended: oneshot::Receiver<()>,
}

/// What is known of a watched key.
#[derive(Default)]
struct Known {
    /// Who had the key when it was last looked up. None if it was free.
    occupancy: Option<Occupancy>,
    stage: Stage,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// Somebody began to wait since the last lookup.
    #[default]
    New,
    LookedUp,
    /// All watches were woken, and none of them has begun to wait again.
    Woken,
}

impl Watcher {
    pub(super) fn new(settings: Settings) -> Self {
        Self(Arc::new(Shared {
            settings,
            state: Mutex::default(),
        }))
    }

    pub(super) fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        let key = stored_key(key.as_str()).ok()?;
        Some(Box::new(KeyWatch::new(&self.0, StoredKey::from(key))))
    }

    #[cfg(test)]
    pub(super) fn is_running(&self) -> bool {
        self.0.state.lock().observer.is_some()
    }

    /// Returns when the file is closed, or when that takes too long.
    pub(super) async fn close(&self) {
        let observer = {
            let mut state = self.0.state.lock();
            state.keys.close();
            state.observer.take()
        };
        if let Some(Running { wake_handle, ended }) = observer {
            wake_handle.wake();
            let _ = tokio::time::timeout(self.0.settings.operation_timeout, ended).await;
        }
    }
}

impl Watches for Shared {
    type Key = StoredKey;

    fn join(self: &Arc<Self>, key: &StoredKey) -> Option<Changes> {
        let mut state = self.state.lock();
        let (changes, known) = state.keys.join(Arc::clone(key))?;
        if known.may_have_changed() {
            changes.mark_changed();
        }
        Some(changes)
    }

    fn leave(&self, key: &StoredKey, changes: &Changes) {
        self.state.lock().keys.leave(key, changes);
    }

    fn listen(self: &Arc<Self>, key: &StoredKey) {
        let mut state = self.state.lock();
        let State { keys, observer } = &mut *state;
        let Some(known) = keys.state_of(key) else {
            return;
        };
        known.stage = Stage::New;
        if observer.is_none() {
            // If the thread cannot be started, the back-off has to do. The next wait tries again.
            *observer = self.start().ok();
        }
        if let Some(observer) = observer {
            observer.wake_handle.wake();
        }
    }
}

impl Shared {
    fn start(self: &Arc<Self>) -> std::io::Result<Running> {
        let (wake_handle, signal) = Signal::new()?;
        let (end, ended) = oneshot::channel();
        let shared = Arc::clone(self);
        thread::Builder::new()
            .name("syncguard-watch".to_owned())
            .spawn(move || {
                Observer::new(shared, signal).run();
                let _ = end.send(());
            })?;
        Ok(Running { wake_handle, ended })
    }

    /// The keys to look up. `has_commit`: whether something was committed since the last look.
    fn keys_to_look_up(&self, has_commit: bool) -> Vec<StoredKey> {
        let mut state = self.state.lock();
        let keys = state.keys.iter();
        keys.filter(|(_, known)| match known.stage {
            Stage::New => true,
            Stage::LookedUp => has_commit,
            Stage::Woken => false,
        })
        .map(|(key, _)| Arc::clone(key))
        .collect()
    }

    /// Notes who has the key. Wakes its watches if it may have become free for one of them, and returns
    /// whether it did.
    fn note(&self, key: &StoredKey, occupancy: Option<Occupancy>) -> bool {
        let mut state = self.state.lock();
        let Some(known) = state.keys.state_of(key) else {
            return false;
        };
        if !known.note(occupancy) {
            return false;
        }
        let wake_up = state.keys.wake_up(key);
        drop(state);
        if let Some(wake_up) = wake_up {
            wake_up.send();
        }
        true
    }

    /// Lets the observer stop, unless a key is watched. Returns whether it may.
    fn stop_if_unwatched(&self) -> bool {
        let mut state = self.state.lock();
        let is_unwatched = state.keys.is_empty();
        if is_unwatched {
            state.observer = None;
        }
        is_unwatched
    }
}

impl Known {
    /// Whether a watch that joins now may have missed that the key became free for it.
    fn may_have_changed(&self) -> bool {
        self.stage != Stage::New && self.occupancy.as_ref().is_none_or(Occupancy::is_shared)
    }

    /// Returns whether the key may have become free for somebody.
    fn note(&mut self, occupancy: Option<Occupancy>) -> bool {
        let is_news = Occupancy::may_admit_more(self.occupancy.as_ref(), occupancy.as_ref());
        self.occupancy = occupancy;
        self.stage = if is_news {
            Stage::Woken
        } else {
            Stage::LookedUp
        };
        is_news
    }
}
