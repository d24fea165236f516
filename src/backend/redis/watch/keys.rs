//! The watched keys, and what is known of each. Pure.
//!
//! Invalidations are not ordered with the answers to reads. So every invalidation leads to a read that
//! starts after it, and what a read found holds until the next invalidation.

use std::collections::HashSet;
use std::sync::Arc;

use crate::backend::redis::format::record::Generation;
use crate::backend::watch::{Changes, Registry, WakeUp};

pub(super) type WatchedKey = Arc<[u8]>;

#[derive(Default)]
pub(super) struct WatchedKeys {
    registry: Registry<WatchedKey, State>,
    /// The keys of which nothing is known. They are read next.
    unknown: HashSet<WatchedKey>,
    reads: u64,
}

#[derive(Default)]
struct State {
    known: Known,
    /// The shared record that the last read found.
    shared: Option<Generation>,
    /// Whether the connection was lost since the last read. A change may have been missed then, so the
    /// next read wakes all watches, whatever it finds.
    may_have_missed: bool,
}

#[derive(Default, PartialEq)]
enum Known {
    #[default]
    Nothing,
    /// The number of the read that is in progress.
    BeingRead(u64),
    Locked,
    Shared,
    Free,
}

/// What a read found.
pub(super) enum Found {
    Free,
    Locked,
    /// Several may hold the key, so there may be room for another one.
    Shared(Generation),
}

/// One read of a key.
pub(super) struct KeyRead {
    pub(super) key: WatchedKey,
    number: u64,
}

impl WatchedKeys {
    pub(super) fn join(&mut self, key: &WatchedKey) -> Option<Changes> {
        let (changes, state) = self.registry.join(Arc::clone(key))?;
        match state.known {
            Known::Nothing => {
                self.unknown.insert(Arc::clone(key));
            }
            Known::Free | Known::Shared => changes.mark_changed(),
            Known::BeingRead(_) | Known::Locked => {}
        }
        Some(changes)
    }

    pub(super) fn leave(&mut self, key: &[u8], changes: &Changes) {
        if self.registry.leave(key, changes) {
            self.unknown.remove(key);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.registry.is_empty()
    }

    pub(super) fn close(&mut self) {
        self.registry.close();
        self.unknown.clear();
    }

    /// Returns the reads that must start now.
    pub(super) fn start_reads(&mut self) -> Vec<KeyRead> {
        let mut reads = Vec::with_capacity(self.unknown.len());
        for key in self.unknown.drain() {
            if let Some(state) = self.registry.state_of(&key) {
                self.reads += 1;
                state.known = Known::BeingRead(self.reads);
                let number = self.reads;
                reads.push(KeyRead { key, number });
            }
        }
        reads
    }

    /// Notes what a read found. Returns a wake-up if waiters should try.
    pub(super) fn finish_read(&mut self, read: &KeyRead, found: Found) -> Option<WakeUp> {
        let state = self.registry.state_of(&read.key)?;
        if state.known == Known::BeingRead(read.number) {
            state.known = match found {
                Found::Free => Known::Free,
                Found::Locked => Known::Locked,
                Found::Shared(_) => Known::Shared,
            };
        }
        let (has_room, shared) = match found {
            // This wakes the watches even if the key was invalidated since: when many processes compete
            // for a key, it always was.
            Found::Free => (true, None),
            Found::Locked => (false, None),
            // A waiter that leaves a mark must not wake others, which would leave theirs.
            Found::Shared(now) => (state.shared.as_ref() != Some(&now), Some(now)),
        };
        state.shared = shared;
        let has_news = has_room || state.may_have_missed;
        state.may_have_missed = false;
        has_news.then(|| self.registry.wake_up(&read.key))?
    }

    /// Called when the server reports a change of this key.
    pub(super) fn invalidate(&mut self, key: &[u8]) {
        if let Some(state) = self.registry.state_of(key) {
            state.known = Known::Nothing;
            self.unknown.insert(key.into());
        }
    }

    /// Called when any key may have changed.
    pub(super) fn invalidate_all(&mut self) {
        for (key, state) in self.registry.iter() {
            state.known = Known::Nothing;
            self.unknown.insert(Arc::clone(key));
        }
    }

    /// Called when the connection was lost.
    pub(super) fn lose_connection(&mut self) {
        self.invalidate_all();
        for (_, state) in self.registry.iter() {
            state.may_have_missed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use parking_lot::Mutex;

    use super::*;
    use crate::backend::Watch;
    use crate::backend::redis::format::record;
    use crate::backend::watch::{KeyWatch, Watches};

    #[derive(Default)]
    struct Keys(Mutex<WatchedKeys>);

    impl Watches for Keys {
        type Key = WatchedKey;

        fn join(self: &Arc<Self>, key: &WatchedKey) -> Option<Changes> {
            self.0.lock().join(key)
        }

        fn leave(&self, key: &WatchedKey, changes: &Changes) {
            self.0.lock().leave(key, changes);
        }
    }

    impl Keys {
        fn watch(self: &Arc<Self>) -> KeyWatch<Self> {
            let mut watch = KeyWatch::new(self, b"k".as_slice().into());
            is_woken(&mut watch);
            watch
        }

        fn only_read(&self) -> KeyRead {
            let mut reads = self.0.lock().start_reads();
            assert_eq!(reads.len(), 1);
            reads.remove(0)
        }

        fn finish(&self, read: &KeyRead, is_free: bool) {
            self.finish_with(read, if is_free { Found::Free } else { Found::Locked });
        }

        fn finish_with(&self, read: &KeyRead, found: Found) {
            let wake_up = self.0.lock().finish_read(read, found);
            if let Some(wake_up) = wake_up {
                wake_up.send();
            }
        }
    }

    fn is_woken(watch: &mut KeyWatch<Keys>) -> bool {
        watch.changed().now_or_never().is_some()
    }

    #[test]
    fn every_invalidation_leads_to_a_read_and_nothing_else_does() {
        let keys = Arc::new(Keys::default());
        let mut first = keys.watch();
        let read = keys.only_read();
        let mut second = keys.watch();
        assert!(keys.0.lock().start_reads().is_empty(), "one read is enough");
        keys.finish(&read, false);
        assert!(!is_woken(&mut first) && !is_woken(&mut second));

        for key in [b"k".as_slice(), b"k", b"another"] {
            keys.0.lock().invalidate(key);
        }
        keys.finish(&keys.only_read(), true);
        assert!(is_woken(&mut first) && is_woken(&mut second));
        let mut third = KeyWatch::new(&keys, b"k".as_slice().into());
        assert!(is_woken(&mut third), "the key is known to be free");
        assert!(keys.0.lock().start_reads().is_empty());
    }

    #[test]
    fn an_invalidation_during_a_read_leads_to_another_read() {
        let keys = Arc::new(Keys::default());
        let mut watch = keys.watch();
        let early = keys.only_read();
        keys.0.lock().invalidate(b"k");
        keys.finish(&early, false);
        keys.finish(&keys.only_read(), true);
        assert!(is_woken(&mut watch));

        keys.0.lock().invalidate(b"k");
        let early = keys.only_read();
        keys.0.lock().invalidate(b"k");
        keys.finish(&early, true);
        assert!(is_woken(&mut watch), "the key was free for a moment");
        let mut late = KeyWatch::new(&keys, b"k".as_slice().into());
        assert!(!is_woken(&mut late), "the key may be locked again");
        assert_eq!(keys.0.lock().start_reads().len(), 1);
    }

    #[test]
    fn a_late_answer_says_nothing_to_watches_that_joined_after_the_read() {
        let keys = Arc::new(Keys::default());
        drop(keys.watch());
        assert!(keys.0.lock().start_reads().is_empty(), "nobody watches");
        let watch = keys.watch();
        let early = keys.only_read();
        drop(watch);
        assert!(keys.0.lock().is_empty());
        let _watch = keys.watch();
        keys.finish(&early, false);
        assert_eq!(keys.0.lock().start_reads().len(), 1);
    }

    #[test]
    fn a_shared_key_wakes_if_somebody_has_left_it() {
        let generation = |freed: u32| {
            let stored = format!(r#"{{"lockId":"a","freed":{freed},"holders":["#);
            Found::Shared(record::generation(stored.as_bytes()).unwrap())
        };
        let keys = Arc::new(Keys::default());
        let mut watch = keys.watch();
        let changes = [
            // There may be room for another holder.
            (generation(0), true),
            (generation(0), false),
            (generation(1), true),
            (Found::Locked, false),
            (generation(1), true),
            (Found::Free, true),
            (generation(1), true),
        ];
        for (found, wakes) in changes {
            let read = keys.only_read();
            keys.finish_with(&read, found);
            assert_eq!(is_woken(&mut watch), wakes);
            keys.0.lock().invalidate(b"k");
        }
        keys.finish_with(&keys.only_read(), generation(1));
        let mut late = KeyWatch::new(&keys, b"k".as_slice().into());
        assert!(
            is_woken(&mut late),
            "the last change may be newer than its attempt"
        );
        assert!(!is_woken(&mut watch) && !is_woken(&mut late));
    }

    #[test]
    fn a_lost_connection_wakes_watches_after_the_next_read() {
        let keys = Arc::new(Keys::default());
        let mut watch = keys.watch();
        keys.0.lock().start_reads();
        keys.0.lock().lose_connection();
        assert!(!is_woken(&mut watch));
        for expected in [true, false] {
            keys.finish(&keys.only_read(), false);
            assert_eq!(is_woken(&mut watch), expected);
            keys.0.lock().invalidate_all();
        }
    }
}
