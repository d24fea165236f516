//! Replies that are ready and operations that will have one: what the JavaScript thread shares with
//! those that work for it.

use std::sync::PoisonError;

use super::reply::Reply;
use crate::map::FastMap;
use crate::sync::{CancellationToken, Mutex, MutexGuard};

#[derive(Default)]
pub struct Queue {
    ready: Mutex<Vec<(u64, Reply)>>,
    /// What JavaScript may still cancel, by its id.
    running: Mutex<FastMap<u64, Running>>,
}

struct Running {
    cancel: CancellationToken,
    /// It was cancelled, perhaps too late for the engine to see it.
    unwanted: bool,
}

impl Queue {
    /// Whether this is the first since the last `take`: only then is a wake-up due.
    pub fn push(&self, id: u64, reply: Reply) -> bool {
        let mut ready = lock(&self.ready);
        ready.push((id, reply));
        ready.len() == 1
    }

    pub fn take(&self) -> Vec<(u64, Reply)> {
        std::mem::take(&mut *lock(&self.ready))
    }

    /// If no more than one is ready.
    pub fn take_single(&self) -> Option<(u64, Reply)> {
        let mut ready = lock(&self.ready);
        if ready.len() == 1 { ready.pop() } else { None }
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.ready).is_empty()
    }

    pub fn start(&self, id: u64, cancel: CancellationToken) {
        let unwanted = false;
        lock(&self.running).insert(id, Running { cancel, unwanted });
    }

    /// Nobody wants the reply to `id` any more.
    pub fn cancel(&self, id: u64) {
        let running = lock(&self.running).get_mut(&id).map(|running| {
            running.unwanted = true;
            running.cancel.clone()
        });
        match running {
            Some(cancel) => cancel.cancel(),
            None => self.revoke(id),
        }
    }

    /// If it is here.
    fn revoke(&self, id: u64) {
        let mut ready = lock(&self.ready);
        let found = ready.iter_mut().find(|(other, _)| *other == id);
        let unwanted = found.map(|(_, reply)| std::mem::replace(reply, Reply::nothing()));
        drop(ready);
        drop(unwanted);
    }

    /// The reply to what was started. Whether it is the first, as in `push`.
    pub fn finish(&self, id: u64, reply: Reply) -> bool {
        // Together: who cancels finds it either running or in the queue.
        let mut running = lock(&self.running);
        let unwanted = running.remove(&id).is_some_and(|it| it.unwanted);
        let (reply, dropped) = if unwanted {
            (Reply::nothing(), Some(reply))
        } else {
            (reply, None)
        };
        let first = self.push(id, reply);
        drop(running);
        drop(dropped);
        first
    }

    /// There will be no reply to what was started.
    pub fn forget(&self, id: u64) {
        lock(&self.running).remove(&id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
