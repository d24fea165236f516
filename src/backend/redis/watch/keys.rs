//! The keys that are watched, and what is known of them.
//!
//! A push is not ordered with the answers to looks, so a push always leads to a look that starts
//! after it. What a look tells holds until the next push.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::watch;

pub(super) type WatchedKey = Arc<[u8]>;

#[derive(Default)]
pub(super) struct WatchedKeys {
    watched: HashMap<WatchedKey, Watched>,
    /// Those of them that nothing is known of.
    unknown: HashSet<WatchedKey>,
    looks: u64,
}

struct Watched {
    changed: watch::Sender<()>,
    known: Known,
    /// The connection was lost since the last look: whoever waits is told, whatever the next finds.
    missed: bool,
}

#[derive(PartialEq)]
enum Known {
    Nothing,
    /// The number of the look that is under way.
    Soon(u64),
    Locked,
    Free,
}

/// A key that is to be read once.
pub(super) struct Look {
    pub(super) key: WatchedKey,
    number: u64,
}

impl WatchedKeys {
    /// What tells a new watch that the key may be free.
    pub(super) fn join(&mut self, key: &WatchedKey) -> watch::Receiver<()> {
        let watched = self.watched.entry(Arc::clone(key)).or_insert_with(|| {
            self.unknown.insert(Arc::clone(key));
            Watched {
                changed: watch::Sender::new(()),
                known: Known::Nothing,
                missed: false,
            }
        });
        let mut changed = watched.changed.subscribe();
        if watched.known == Known::Free {
            changed.mark_changed();
        }
        changed
    }

    /// To be called when a watch has dropped what it got.
    pub(super) fn leave(&mut self, key: &[u8]) {
        let still_watched = |watched: &Watched| watched.changed.receiver_count() > 0;
        if !self.watched.get(key).is_some_and(still_watched) {
            self.watched.remove(key);
            self.unknown.remove(key);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    /// The looks that must start now.
    pub(super) fn looks(&mut self) -> Vec<Look> {
        let mut looks = Vec::new();
        for key in self.unknown.drain() {
            if let Some(watched) = self.watched.get_mut(&key) {
                self.looks += 1;
                watched.known = Known::Soon(self.looks);
                let number = self.looks;
                looks.push(Look { key, number });
            }
        }
        looks
    }

    /// The answer to a look.
    pub(super) fn looked(&mut self, look: &Look, free: bool) {
        let Some(watched) = self.watched.get_mut(&look.key) else {
            return;
        };
        // Also when there was a push since: under a rush for the key that is always so.
        if free || watched.missed {
            watched.missed = false;
            watched.changed.send_replace(());
        }
        if watched.known == Known::Soon(look.number) {
            watched.known = if free { Known::Free } else { Known::Locked };
        }
    }

    /// The server says that something happened to the key.
    pub(super) fn pushed(&mut self, key: &[u8]) {
        if let Some(watched) = self.watched.get_mut(key) {
            watched.known = Known::Nothing;
            self.unknown.insert(key.into());
        }
    }

    /// The same for all keys.
    pub(super) fn flushed(&mut self) {
        for (key, watched) in &mut self.watched {
            watched.known = Known::Nothing;
            self.unknown.insert(Arc::clone(key));
        }
    }

    /// The server can tell nothing until the next look.
    pub(super) fn lost(&mut self) {
        self.flushed();
        for watched in self.watched.values_mut() {
            watched.missed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> WatchedKey {
        name.as_bytes().into()
    }

    fn told(changed: &mut watch::Receiver<()>) -> bool {
        let told = changed.has_changed().unwrap();
        changed.mark_unchanged();
        told
    }

    fn one_look(keys: &mut WatchedKeys) -> Look {
        let mut looks = keys.looks();
        assert_eq!(looks.len(), 1);
        looks.remove(0)
    }

    #[test]
    fn a_look_for_each_push_and_none_without() {
        let mut keys = WatchedKeys::default();
        let mut first = keys.join(&key("k"));
        let look = one_look(&mut keys);
        let mut second = keys.join(&key("k"));
        assert!(keys.looks().is_empty(), "one look is for all");
        keys.looked(&look, false);
        assert!(!told(&mut first) && !told(&mut second), "it is locked");

        keys.pushed(b"k");
        keys.pushed(b"k");
        keys.pushed(b"another");
        let look = one_look(&mut keys);
        keys.looked(&look, true);
        assert!(told(&mut first) && told(&mut second));
        assert!(told(&mut keys.join(&key("k"))), "it is known to be free");
        assert!(keys.looks().is_empty());
    }

    #[test]
    fn a_push_during_a_look_leads_to_another() {
        let mut keys = WatchedKeys::default();
        let mut changed = keys.join(&key("k"));
        let early = one_look(&mut keys);
        keys.pushed(b"k");
        keys.looked(&early, false);
        let late = one_look(&mut keys);
        keys.looked(&late, true);
        assert!(told(&mut changed));

        keys.pushed(b"k");
        let early = one_look(&mut keys);
        keys.pushed(b"k");
        keys.looked(&early, true);
        assert!(told(&mut changed), "it was free for a moment at least");
        assert!(!told(&mut keys.join(&key("k"))), "but who knows");
        assert_eq!(keys.looks().len(), 1);
    }

    #[test]
    fn a_late_answer_is_not_for_those_who_came_after_it_was_asked_for() {
        let mut keys = WatchedKeys::default();
        drop(keys.join(&key("k")));
        let early = one_look(&mut keys);
        keys.leave(b"k");
        assert!(keys.is_empty());
        let _changed = keys.join(&key("k"));
        keys.looked(&early, false);
        assert_eq!(keys.looks().len(), 1);
    }

    #[test]
    fn a_loss_is_told_after_the_next_look() {
        let mut keys = WatchedKeys::default();
        let mut changed = keys.join(&key("k"));
        keys.looks();
        keys.lost();
        assert!(!told(&mut changed));
        for expected in [true, false] {
            let look = one_look(&mut keys);
            keys.looked(&look, false);
            assert_eq!(told(&mut changed), expected);
            keys.flushed();
        }
    }
}
