//! Callers of this process that wait for the same key. They are served in the order in which they
//! came: only the first one makes attempts, and has the key watched for all of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::host::Moment;
#[cfg(test)]
use super::simulation::mutation::Mutation;
use crate::backend::Watch;
use crate::lock::Key;
use crate::map::FastMap;

/// For so long what the first one found counts for the others.
const FRESH: Duration = Duration::from_millis(10);

#[derive(Default)]
pub(super) struct Queues {
    queues: Mutex<FastMap<Key, Queue>>,
    tickets: AtomicU64,
    /// How often a key was given back. Who comes to a queue can tell whether that happened since it
    /// found the key locked.
    released: AtomicU64,
}

#[derive(Default)]
struct Queue {
    places: VecDeque<Arc<Place>>,
    /// When the first one tried last.
    tried_at: Option<Moment>,
    /// Of the one who left, for the one who follows.
    watch: Option<Box<dyn Watch>>,
}

/// The first of a queue, who was asked to try.
pub(super) struct Asked(Arc<Place>);

struct Place {
    ticket: u64,
    attempt: AtomicBool,
    changed: Notify,
}

impl Place {
    fn ask_for_attempt(&self) {
        self.attempt.store(true, Ordering::Release);
        self.changed.notify_one();
    }
}

impl Queues {
    pub fn releases(&self) -> u64 {
        self.released.load(Ordering::Acquire)
    }

    pub fn is_waited_for(&self, key: &Key) -> bool {
        self.lock().contains_key(key)
    }

    /// Says who came first, where several find out at about the same time that they have to wait.
    pub fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    pub fn join(self: &Arc<Self>, key: &Key, ticket: u64) -> Waiter {
        let place = Arc::new(Place {
            ticket,
            attempt: AtomicBool::new(false),
            changed: Notify::new(),
        });
        let mut queues = self.lock();
        let queue = queues.entry(key.clone()).or_default();
        let later = queue
            .places
            .iter()
            .rev()
            .take_while(|other| other.ticket > ticket);
        let at = queue.places.len() - later.count();
        #[cfg(test)]
        let at = Mutation::LastComeFirst.instead(at, 0);
        queue.places.insert(at, Arc::clone(&place));
        Waiter {
            queues: Arc::clone(self),
            key: key.clone(),
            place,
            watch: None,
            succeeded: false,
        }
    }

    /// The key may be free: the first who waits for it tries now.
    pub fn released(&self, key: &Key) -> Option<Asked> {
        self.wake_first(key, |_| true)
    }

    /// The same; who was asked before is asked again, unless it has the lock.
    pub fn surely_released(&self, key: &Key, before: Option<Asked>) {
        #[cfg(test)]
        if before.is_some() && Mutation::AskedOnce.is_on() {
            return;
        }
        self.wake_first(key, |first| {
            before.is_none_or(|Asked(before)| Arc::ptr_eq(first, &before))
        });
    }

    fn wake_first(&self, key: &Key, is_due: impl FnOnce(&Arc<Place>) -> bool) -> Option<Asked> {
        #[cfg(test)]
        if Mutation::NobodyWoken.is_on() {
            return None;
        }
        self.released.fetch_add(1, Ordering::AcqRel);
        let queues = self.lock();
        let first = queues.get(key)?.places.front()?;
        if !is_due(first) {
            return None;
        }
        first.ask_for_attempt();
        Some(Asked(Arc::clone(first)))
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, FastMap<Key, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Waiter {
    queues: Arc<Queues>,
    key: Key,
    place: Arc<Place>,
    watch: Option<Box<dyn Watch>>,
    succeeded: bool,
}

impl Waiter {
    pub fn is_first(&self) -> bool {
        let queues = self.queues.lock();
        let first = queues.get(&self.key).and_then(|queue| queue.places.front());
        first.is_some_and(|first| Arc::ptr_eq(first, &self.place))
    }

    /// Whether an attempt was asked for since the last time.
    pub fn take_request(&self) -> bool {
        self.place.attempt.swap(false, Ordering::AcqRel)
    }

    /// Lets the first one try, for all of them, unless it just did.
    pub fn ask_first(&self, now: Moment) {
        if let Some(queue) = self.queues.lock().get(&self.key)
            && queue.tried_at.is_none_or(|at| now.since(at) >= FRESH)
            && let Some(first) = queue.places.front()
        {
            first.ask_for_attempt();
        }
    }

    /// This one, the first, is about to try.
    pub fn tries(&self, now: Moment) {
        if let Some(queue) = self.queues.lock().get_mut(&self.key) {
            queue.tried_at = Some(now);
        }
    }

    /// For the first one: watches the key, also when another one already did.
    pub fn watch(&mut self, start: impl FnOnce(&Key) -> Option<Box<dyn Watch>>) {
        if self.watch.is_some() {
            return;
        }
        let mut queues = self.queues.lock();
        let left = queues
            .get_mut(&self.key)
            .and_then(|queue| queue.watch.take());
        drop(queues);
        self.watch = left.or_else(|| start(&self.key));
    }

    /// For the first one: nobody watches the key any more.
    pub fn unwatch(&mut self) {
        let mut queues = self.queues.lock();
        let queue = queues.get_mut(&self.key);
        let left = queue.and_then(|queue| queue.watch.take());
        // A watch may have much to do when it ends.
        drop(queues);
        drop((left, self.watch.take()));
    }

    /// Returns when there is something to do for this one: it is asked to try, or the key has changed.
    pub async fn woken(&mut self) {
        let Some(watch) = &mut self.watch else {
            return self.place.changed.notified().await;
        };
        tokio::select! {
            biased;
            () = self.place.changed.notified() => {}
            () = watch.changed() => self.place.attempt.store(true, Ordering::Release),
        }
    }

    /// It has the lock: who follows need not try.
    pub fn succeed(mut self) {
        self.succeeded = true;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(&self.key) else {
            return;
        };
        let was_first = queue
            .places
            .front()
            .is_some_and(|first| Arc::ptr_eq(first, &self.place));
        if was_first {
            queue.places.pop_front();
        } else {
            queue
                .places
                .retain(|place| !Arc::ptr_eq(place, &self.place));
        }
        let Some(next) = queue.places.front() else {
            // A watch may have much to do when it ends.
            let ended = queues.remove(&self.key);
            drop(queues);
            drop(ended);
            return;
        };
        #[cfg(test)]
        let was_first = was_first && !Mutation::TurnKept.is_on();
        if was_first {
            // It may have been woken and not have tried yet. One who succeeded leaves the others asleep
            // until it gives the key back.
            if !self.succeeded {
                next.ask_for_attempt();
            }
            queue.watch = self.watch.take().or_else(|| queue.watch.take());
        }
    }
}
