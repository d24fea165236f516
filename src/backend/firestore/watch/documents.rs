//! The documents that have waiters, by id.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::sight::Sight;

#[derive(Default)]
pub(super) struct Documents(Mutex<State>);

#[derive(Default)]
struct State {
    watched: HashMap<Arc<str>, Document>,
    last_target: i32,
    /// Whether the watcher's task is running.
    listening: bool,
}

struct Document {
    /// The document's id on a stream. It changes each time the document is watched anew, so that the
    /// server sends its state again.
    target: i32,
    watches: usize,
    sight: watch::Sender<Sight>,
}

impl Documents {
    /// Adds a waiter. Also returns whether the caller has to start the watcher's task.
    pub(super) fn join(&self, id: &Arc<str>) -> (watch::Receiver<Sight>, bool) {
        let mut state = self.0.lock();
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
        let mut state = self.0.lock();
        if let Some(document) = state.watched.get_mut(id) {
            document.watches -= 1;
            if document.watches == 0 {
                state.watched.remove(id);
            }
        }
    }

    /// Returns the targets that a stream should have.
    pub(super) fn targets(&self) -> HashMap<i32, Arc<str>> {
        let state = self.0.lock();
        let watched = state.watched.iter();
        watched
            .map(|(id, document)| (document.target, Arc::clone(id)))
            .collect()
    }

    pub(super) fn update(&self, id: &str, change: impl FnOnce(&mut Sight)) {
        let sight = self.0.lock().watched.get(id).map(|it| it.sight.clone());
        // The mutex is not held while waiters are woken.
        if let Some(sight) = sight {
            sight.send_modify(change);
        }
    }

    pub(super) fn forget_all(&self) {
        let sights: Vec<_> = {
            let state = self.0.lock();
            let watched = state.watched.values();
            watched.map(|document| document.sight.clone()).collect()
        };
        for sight in sights {
            sight.send_modify(Sight::forget);
        }
    }

    /// Marks the watcher's task as ended if there are no waiters, and returns whether it did.
    pub(super) fn stop_if_unwatched(&self) -> bool {
        let mut state = self.0.lock();
        let unwatched = state.watched.is_empty();
        if unwatched {
            state.listening = false;
        }
        unwatched
    }
}
