//! The waiters of this process, in a queue for each key. They are served in the order in which they
//! arrived: only the first one makes attempts, and watches the key for all of them.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::LockRequest;
use super::host::Moment;
use super::releases::Releases;
#[cfg(test)]
use super::simulation::mutation::Mutation;
use crate::backend::Watch;
use crate::lock::{Access, HolderLabel, Key, Share};
use crate::map::FastMap;

/// For how long the outcome of the first waiter's attempt also counts for the other waiters.
const SHARED_ATTEMPT_AGE: Duration = Duration::from_millis(10);

#[derive(Default)]
pub(super) struct Queues(Mutex<State>);

#[derive(Default)]
struct State {
    queues: FastMap<Key, Queue>,
    next_ticket: u64,
    releases: Releases,
}

#[derive(Default)]
struct Queue {
    /// The waiters by ticket, which is the order of their arrival. Waiters leave in any order, and thousands
    /// leave at once if they time out together. So removing one from a long queue must be quick.
    entries: BTreeMap<u64, Arc<Entry>>,
    /// When the first waiter last made an attempt.
    tried_at: Option<Moment>,
    /// The current holder's lease, as the last refusal reported it.
    lease: Option<Lease>,
    /// The watch of a first waiter that left, for the next one.
    watch: Option<Box<dyn Watch>>,
}

/// The known facts of a holder's lease.
#[derive(Clone)]
pub(super) struct Lease {
    /// When the lease ends unless it is extended.
    pub ends: Moment,
    /// None if the holder has no label.
    pub label: Option<HolderLabel>,
}

/// A caller before its first attempt.
pub(super) struct Arrival {
    /// The position in the queue. It is drawn on arrival, because several callers may find out at
    /// about the same time that they have to wait.
    ticket: u64,
    releases: u64,
    /// Whether other callers already wait for the key. They come first.
    pub is_behind: bool,
}

/// The first waiter of a queue, after it was woken to make an attempt.
pub(super) struct Woken(Arc<Entry>);

struct Entry {
    access: Access,
    is_woken: AtomicBool,
    changed: Notify,
}

impl Entry {
    fn wake(&self) {
        self.is_woken.store(true, Ordering::Release);
        self.changed.notify_one();
    }
}

impl Queues {
    /// Registers a caller before its first attempt.
    pub fn arrive(&self, key: &Key) -> Arrival {
        let mut state = self.0.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        Arrival {
            ticket,
            releases: state.releases.count(),
            is_behind: state.queues.contains_key(key),
        }
    }

    /// Joins the queue of the key. If the key was released since the arrival, the first waiter is woken. The
    /// caller's attempt may have been refused before the release, which then found nobody in the queue.
    pub fn join(self: &Arc<Self>, lock: &LockRequest, arrival: &Arrival) -> Waiter {
        let key = &lock.key;
        let entry = Arc::new(Entry {
            access: lock.access,
            is_woken: AtomicBool::new(false),
            changed: Notify::new(),
        });
        let ticket = arrival.ticket;
        #[cfg(test)]
        let ticket = Mutation::LastComeFirst.instead(ticket, u64::MAX - ticket);
        let mut state = self.0.lock();
        let is_released = state.is_released_since(key, arrival.releases);
        let queue = state.queues.entry(key.clone()).or_default();
        queue.entries.insert(ticket, Arc::clone(&entry));
        if is_released && let Some(first) = queue.first() {
            first.wake();
        }
        Waiter {
            queues: Arc::clone(self),
            key: key.clone(),
            ticket,
            entry,
            watch: None,
            outcome: Outcome::GaveUp,
        }
    }

    /// Wakes the first waiter of a key that may be free.
    pub fn released(&self, key: &Key) -> Option<Woken> {
        self.wake_first(key, |_| true)
    }

    /// Wakes the first waiter of a key that is free. A waiter that was woken before the store confirmed the
    /// release is woken again, unless it has acquired the lock.
    pub fn confirm_release(&self, key: &Key, before: Option<Woken>) {
        #[cfg(test)]
        if before.is_some() && Mutation::AskedOnce.is_on() {
            return;
        }
        self.wake_first(key, |first| {
            before.is_none_or(|Woken(before)| Arc::ptr_eq(first, &before))
        });
    }

    fn wake_first(&self, key: &Key, is_due: impl FnOnce(&Arc<Entry>) -> bool) -> Option<Woken> {
        #[cfg(test)]
        if Mutation::NobodyWoken.is_on() {
            return None;
        }
        let mut state = self.0.lock();
        state.count_release(key);
        let first = state.queues.get(key)?.first()?;
        #[cfg(test)]
        if first.access.is_shared() && Mutation::SharerNotWoken.is_on() {
            return None;
        }
        if !is_due(first) {
            return None;
        }
        first.wake();
        Some(Woken(Arc::clone(first)))
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.lock().queues.len()
    }
}

impl State {
    fn count_release(&mut self, key: &Key) {
        let hash = self.queues.hasher().hash_one(key);
        self.releases.add(hash);
    }

    fn is_released_since(&self, key: &Key, count: u64) -> bool {
        let hash = || self.queues.hasher().hash_one(key);
        self.releases.count() != count && self.releases.includes(hash(), count)
    }
}

impl Queue {
    fn first(&self) -> Option<&Arc<Entry>> {
        self.entries.first_key_value().map(|(_, entry)| entry)
    }
}

/// A caller that waits in the queue of a key. Dropping it leaves the queue.
pub(super) struct Waiter {
    queues: Arc<Queues>,
    key: Key,
    ticket: u64,
    entry: Arc<Entry>,
    watch: Option<Box<dyn Watch>>,
    outcome: Outcome,
}

/// How a waiter leaves the queue.
#[derive(Clone, Copy)]
enum Outcome {
    GaveUp,
    /// The waiter has the lock. If it is shared, the number of holders tells whether the next waiter may get
    /// a share, too.
    Succeeded(Option<Share>),
}

impl Waiter {
    pub fn is_first(&self) -> bool {
        let state = self.queues.0.lock();
        let queue = state.queues.get(&self.key);
        queue.is_some_and(|queue| self.is_first_of(queue))
    }

    fn is_first_of(&self, queue: &Queue) -> bool {
        let first = queue.entries.first_key_value();
        first.is_some_and(|(ticket, _)| *ticket == self.ticket)
    }

    /// Returns whether this waiter was woken since the last call.
    pub fn take_wake_up(&self) -> bool {
        self.entry.is_woken.swap(false, Ordering::AcqRel)
    }

    /// Wakes the first waiter for an attempt on behalf of all, unless it has just made one.
    pub fn wake_first(&self, now: Moment) {
        if let Some(queue) = self.queues.0.lock().queues.get(&self.key)
            && queue
                .tried_at
                .is_none_or(|at| now.since(at) >= SHARED_ATTEMPT_AGE)
            && let Some(first) = queue.first()
        {
            first.wake();
        }
    }

    /// Notes that this waiter, the first of its queue, is about to make an attempt.
    pub fn note_attempt(&self, now: Moment) {
        if let Some(queue) = self.queues.0.lock().queues.get_mut(&self.key) {
            queue.tried_at = Some(now);
        }
    }

    /// Notes the current holder's lease for all waiters of the key.
    pub fn note_lease(&self, ends: Moment, label: Option<HolderLabel>) {
        if let Some(queue) = self.queues.0.lock().queues.get_mut(&self.key) {
            queue.lease = Some(Lease { ends, label });
        }
    }

    /// Returns the lease of the current holder. None if no refusal reported it.
    pub fn lease(&self) -> Option<Lease> {
        self.queues.0.lock().queues.get(&self.key)?.lease.clone()
    }

    /// Watches the key. Only the first waiter does so. It takes over the watch of a waiter that left, if any.
    pub fn watch(&mut self, start: impl FnOnce(&Key) -> Option<Box<dyn Watch>>) {
        if self.watch.is_some() {
            return;
        }
        let mut state = self.queues.0.lock();
        let queue = state.queues.get_mut(&self.key);
        let left = queue.and_then(|queue| queue.watch.take());
        drop(state);
        self.watch = left.or_else(|| start(&self.key));
    }

    /// Stops watching the key.
    pub fn unwatch(&mut self) {
        let mut state = self.queues.0.lock();
        let queue = state.queues.get_mut(&self.key);
        let left = queue.and_then(|queue| queue.watch.take());
        // Dropped outside the mutex, because ending a watch can take long.
        drop(state);
        drop((left, self.watch.take()));
    }

    /// Returns when this waiter is woken, or when the watch reports that the key has changed.
    pub async fn woken(&mut self) {
        let Some(watch) = &mut self.watch else {
            return self.entry.changed.notified().await;
        };
        tokio::select! {
            biased;
            () = self.entry.changed.notified() => {}
            () = watch.changed() => self.entry.is_woken.store(true, Ordering::Release),
        }
    }

    /// Leaves the queue with the lock. The next waiter tries only if it may share the key.
    pub fn succeed(mut self, share: Option<Share>) {
        self.outcome = Outcome::Succeeded(share);
    }
}

impl Waiter {
    /// Lets the waiter that is first now make an attempt or watch the key, if that makes sense.
    fn pass_turn(&self, next: &Entry) {
        let Outcome::Succeeded(share) = self.outcome else {
            // This waiter may have been woken, and has not made its attempt.
            return next.wake();
        };
        let Some(share) = share else {
            // The next waiter is woken when the key is released.
            return;
        };
        #[cfg(test)]
        if Mutation::NextSharerNotWoken.is_on() {
            return;
        }
        // Set if another share was released while this one was granted.
        let is_woken = self.take_wake_up();
        // The attempt of a writer leaves its mark.
        let is_writer = !next.access.is_shared();
        if is_woken || is_writer || next.access.admits(share.holders) {
            next.wake();
        } else {
            // It watches the key from now on, because other processes may release their shares.
            next.changed.notify_one();
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut state = self.queues.0.lock();
        let Some(queue) = state.queues.get_mut(&self.key) else {
            return;
        };
        let was_first = self.is_first_of(queue);
        queue.entries.remove(&self.ticket);
        if queue.entries.is_empty() {
            let ended = state.queues.remove(&self.key);
            // Dropped outside the mutex, because ending a watch can take long.
            drop(state);
            drop(ended);
            return;
        }
        #[cfg(test)]
        let was_first = was_first && !Mutation::TurnKept.is_on();
        if was_first {
            if let Some(next) = queue.first() {
                self.pass_turn(next);
            }
            let watch = self.watch.take();
            queue.watch = watch.or_else(|| queue.watch.take());
        }
    }
}
