//! The keys of a backend that somebody watches. A store notifies of a key; all watches of that key are
//! woken.
//!
//! A backend keeps a [`Registry`] in its own mutex, next to the state of whatever serves it: a
//! connection, a thread. It implements [`Watches`], and hands out a [`KeyWatch`] for each waiter.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::pending;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::Watch;

/// The watched keys, and what the backend knows of each.
pub struct Registry<K, S = ()> {
    watched: HashMap<K, Watched<S>>,
    is_closed: bool,
}

struct Watched<S> {
    /// In the order in which they joined, which is the order in which they are woken.
    watches: Vec<Arc<Change>>,
    state: S,
}

/// Whether the key of a watch has changed since the watch last waited.
#[derive(Default)]
struct Change {
    is_pending: AtomicBool,
    notify: Notify,
}

impl<K, S> Default for Registry<K, S> {
    fn default() -> Self {
        Self {
            watched: HashMap::new(),
            is_closed: false,
        }
    }
}

impl<K: Eq + Hash, S: Default> Registry<K, S> {
    /// Adds a watch of this key. Returns what is known of the key, too: a default for a key that was
    /// not watched before. None if the registry is closed.
    pub fn join(&mut self, key: K) -> Option<(Changes, &mut S)> {
        if self.is_closed {
            return None;
        }
        let watched = match self.watched.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Watched {
                watches: Vec::new(),
                state: S::default(),
            }),
        };
        let change = Arc::<Change>::default();
        watched.watches.push(Arc::clone(&change));
        Some((Changes(change), &mut watched.state))
    }
}

impl<K: Eq + Hash, S> Registry<K, S> {
    /// Removes a watch of this key. Returns whether it was the last one.
    pub fn leave<Q>(&mut self, key: &Q, changes: &Changes) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let Some(watched) = self.watched.get_mut(key) else {
            return false;
        };
        watched
            .watches
            .retain(|change| !Arc::ptr_eq(change, &changes.0));
        let is_last = watched.watches.is_empty();
        if is_last {
            self.watched.remove(key);
        }
        is_last
    }

    pub fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// What is known of a watched key. None if nobody watches it.
    pub fn state_of<Q>(&mut self, key: &Q) -> Option<&mut S>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.watched.get_mut(key).map(|watched| &mut watched.state)
    }

    /// The watched keys.
    pub fn iter(&mut self) -> impl Iterator<Item = (&K, &mut S)> {
        let watched = self.watched.iter_mut();
        watched.map(|(key, watched)| (key, &mut watched.state))
    }

    /// Prepares to wake the watches of this key. None if nobody watches it.
    pub fn wake_up<Q>(&self, key: &Q) -> Option<WakeUp>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let watched = self.watched.get(key)?;
        Some(WakeUp(watched.watches.clone()))
    }

    /// Prepares to wake the watches of each key for which `is_changed` returns true.
    pub fn wake_up_where(&mut self, mut is_changed: impl FnMut(&K, &mut S) -> bool) -> WakeUp {
        let mut due = Vec::new();
        for (key, watched) in &mut self.watched {
            if is_changed(key, &mut watched.state) {
                due.extend_from_slice(&watched.watches);
            }
        }
        WakeUp(due)
    }

    /// Ends all watches: they wait for ever, and no key can be watched any more.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.watched.clear();
    }
}

/// A wake-up that is due. Send it without holding any mutex: a waiter may continue on the thread that
/// wakes it, and ask the backend.
#[must_use]
pub struct WakeUp(Vec<Arc<Change>>);

impl WakeUp {
    pub fn send(self) {
        for change in self.0 {
            change.is_pending.store(true, Ordering::Release);
            change.notify.notify_one();
        }
    }
}

/// The changes of a key, as one watch sees them. Changes that nobody waits for are kept as one.
pub struct Changes(Arc<Change>);

impl Changes {
    /// Lets the next wait return at once.
    pub fn mark_changed(&self) {
        self.0.is_pending.store(true, Ordering::Release);
    }

    fn is_pending(&self) -> bool {
        self.0.is_pending.load(Ordering::Acquire)
    }

    /// Waits for a change. The future may be dropped: it takes the change when it returns.
    async fn next(&self) {
        while !self.0.is_pending.swap(false, Ordering::AcqRel) {
            self.0.notify.notified().await;
        }
    }
}

/// What a backend does for those who watch its keys.
pub trait Watches: Send + Sync + 'static {
    type Key: Clone + Send + Sync + 'static;

    /// Adds a watch of this key, and starts what serves it. None if the backend is closed.
    fn join(self: &Arc<Self>, key: &Self::Key) -> Option<Changes>;

    /// Removes a watch of this key.
    fn leave(&self, key: &Self::Key, changes: &Changes);

    /// Called when a watch of this key begins to wait.
    fn listen(self: &Arc<Self>, _key: &Self::Key) {}
}

/// A watch of one key. It joins when it is first asked.
pub struct KeyWatch<W: Watches> {
    watches: Arc<W>,
    key: W::Key,
    changes: Option<Changes>,
}

impl<W: Watches> KeyWatch<W> {
    pub fn new(watches: &Arc<W>, key: W::Key) -> Self {
        Self {
            watches: Arc::clone(watches),
            key,
            changes: None,
        }
    }
}

#[async_trait]
impl<W: Watches> Watch for KeyWatch<W> {
    async fn changed(&mut self) {
        if self.changes.is_none() {
            self.changes = self.watches.join(&self.key);
        }
        let Some(changes) = &self.changes else {
            return pending().await;
        };
        if !changes.is_pending() {
            self.watches.listen(&self.key);
        }
        changes.next().await;
    }
}

impl<W: Watches> Drop for KeyWatch<W> {
    fn drop(&mut self) {
        if let Some(changes) = &self.changes {
            self.watches.leave(&self.key, changes);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Keys(Mutex<Registry<&'static str, u32>>);

    impl Watches for Keys {
        type Key = &'static str;

        fn join(self: &Arc<Self>, key: &Self::Key) -> Option<Changes> {
            let mut registry = self.0.lock();
            let (changes, joined) = registry.join(*key)?;
            *joined += 1;
            Some(changes)
        }

        fn leave(&self, key: &Self::Key, changes: &Changes) {
            self.0.lock().leave(key, changes);
        }
    }

    impl Keys {
        fn wake(&self, key: &'static str) -> bool {
            let wake_up = self.0.lock().wake_up(key);
            let is_watched = wake_up.is_some();
            if let Some(wake_up) = wake_up {
                wake_up.send();
            }
            is_watched
        }
    }

    fn changed(watch: &mut KeyWatch<Keys>) -> bool {
        watch.changed().now_or_never().is_some()
    }

    #[test]
    fn all_watches_of_a_key_are_woken_once() {
        let keys = Arc::new(Keys::default());
        let mut watches = ["a", "a", "b"].map(|key| KeyWatch::new(&keys, key));
        assert_eq!(watches.each_mut().map(changed), [false; 3]);
        assert!(keys.wake("a"));
        assert!(keys.wake("a"));
        assert!(!keys.wake("c"));
        assert_eq!(watches.each_mut().map(changed), [true, true, false]);
        assert_eq!(watches.each_mut().map(changed), [false; 3]);
    }

    #[test]
    fn a_key_is_forgotten_with_its_last_watch() {
        let keys = Arc::new(Keys::default());
        let mut watches = ["a", "a", "b"].map(|key| KeyWatch::new(&keys, key));
        for watch in &mut watches {
            changed(watch);
        }
        assert_eq!(keys.0.lock().state_of("a"), Some(&mut 2));
        let [first, second, other] = watches;
        drop(first);
        assert!(keys.wake("a"));
        drop(second);
        assert!(!keys.wake("a"));
        assert_eq!(keys.0.lock().iter().count(), 1);
        drop(other);
        assert!(keys.0.lock().is_empty());
    }

    #[test]
    fn the_watches_of_several_keys_are_woken_together() {
        let keys = Arc::new(Keys::default());
        let mut watches = ["a", "b", "b", "c"].map(|key| KeyWatch::new(&keys, key));
        assert_eq!(watches.each_mut().map(changed), [false; 4]);
        let is_changed = |key: &&str, joined: &mut u32| {
            *joined += 10;
            *key != "a"
        };
        let wake_up = keys.0.lock().wake_up_where(is_changed);
        wake_up.send();
        assert_eq!(watches.each_mut().map(changed), [false, true, true, true]);
        assert_eq!(keys.0.lock().state_of("b"), Some(&mut 12));
    }

    #[test]
    fn a_watch_that_was_never_asked_is_not_in_the_registry() {
        let keys = Arc::new(Keys::default());
        drop(KeyWatch::new(&keys, "a"));
        assert!(keys.0.lock().is_empty());
    }

    #[test]
    fn watches_wait_for_ever_once_the_registry_is_closed() {
        let keys = Arc::new(Keys::default());
        let mut early = KeyWatch::new(&keys, "a");
        assert!(!changed(&mut early));
        keys.0.lock().close();
        let mut late = KeyWatch::new(&keys, "a");
        assert!(!changed(&mut early) && !changed(&mut late));
        assert!(!keys.wake("a"));
    }
}
