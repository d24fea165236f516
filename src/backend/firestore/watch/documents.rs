//! The documents that somebody waits for, by id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::sight::Sight;

#[derive(Default)]
pub(super) struct Documents(Mutex<State>);

#[derive(Default)]
struct State {
    watched: HashMap<Arc<str>, Document>,
    last_target: i32,
    /// Whether somebody listens, or is about to.
    listening: bool,
}

struct Document {
    /// What it is called on a stream. Another one each time that the document is watched anew, so
    /// that what was said before is said again.
    target: i32,
    watches: usize,
    sight: watch::Sender<Sight>,
}

impl Documents {
    /// One more waits. Also whether it is up to the caller to have somebody listen.
    pub(super) fn join(&self, id: &Arc<str>) -> (watch::Receiver<Sight>, bool) {
        let mut state = self.lock();
        let next_target = state.last_target % i32::MAX + 1;
        let mut is_new = false;
        let document = state.watched.entry(Arc::clone(id)).or_insert_with(|| {
            is_new = true;
            Document {
                target: next_target,
                watches: 0,
                sight: watch::Sender::default(),
            }
        });
        document.watches += 1;
        let sight = document.sight.subscribe();
        if is_new {
            state.last_target = next_target;
        }
        (sight, !std::mem::replace(&mut state.listening, true))
    }

    pub(super) fn leave(&self, id: &str) {
        let mut state = self.lock();
        if let Some(document) = state.watched.get_mut(id) {
            document.watches -= 1;
            if document.watches == 0 {
                state.watched.remove(id);
            }
        }
    }

    /// What a stream should have.
    pub(super) fn targets(&self) -> HashMap<i32, Arc<str>> {
        let state = self.lock();
        let watched = state.watched.iter();
        watched
            .map(|(id, document)| (document.target, Arc::clone(id)))
            .collect()
    }

    pub(super) fn update(&self, id: &str, change: impl FnOnce(&mut Sight)) {
        let sight = self.lock().watched.get(id).map(|it| it.sight.clone());
        // Waiters are woken without the lock.
        if let Some(sight) = sight {
            sight.send_modify(change);
        }
    }

    pub(super) fn forget_all(&self) {
        let sights: Vec<_> = {
            let state = self.lock();
            let watched = state.watched.values();
            watched.map(|document| document.sight.clone()).collect()
        };
        for sight in sights {
            sight.send_modify(Sight::forget);
        }
    }

    /// Nobody listens any more, if nobody waits any more.
    pub(super) fn stop_if_unwatched(&self) -> bool {
        let mut state = self.lock();
        let unwatched = state.watched.is_empty();
        if unwatched {
            state.listening = false;
        }
        unwatched
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
