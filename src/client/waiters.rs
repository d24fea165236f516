//! Callers of this process that wait for the same key: a release here wakes the next one at once
//! instead of leaving it to its back-off.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::lock::Key;

#[derive(Default)]
pub struct Waiters(Mutex<HashMap<Key, Queue>>);

struct Queue {
    released: Arc<Notify>,
    members: usize,
}

impl Waiters {
    /// To be joined before the first attempt: a release between attempt and wait is then not missed.
    pub fn join(&self, key: &Key) -> Waiter<'_> {
        let mut queues = self.lock();
        let queue = queues.entry(key.clone()).or_insert_with(|| Queue {
            released: Arc::default(),
            members: 0,
        });
        queue.members += 1;
        Waiter {
            waiters: self,
            key: key.clone(),
            released: Arc::clone(&queue.released),
        }
    }

    pub fn wake_one(&self, key: &Key) {
        if let Some(queue) = self.lock().get(key) {
            queue.released.notify_one();
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Waiter<'a> {
    waiters: &'a Waiters,
    key: Key,
    released: Arc<Notify>,
}

impl Waiter<'_> {
    /// Resolves when the key was released by this process, first come, first served.
    pub async fn released(&self) {
        self.released.notified().await;
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Entry::Occupied(mut queue) = self.waiters.lock().entry(self.key.clone()) {
            queue.get_mut().members -= 1;
            if queue.get().members == 0 {
                queue.remove();
            }
        }
    }
}
