//! Replies that are ready, and running operations that will have a reply. The JavaScript thread shares
//! them with the threads that run operations.

use std::collections::VecDeque;

use super::reply::Reply;
use crate::map::FastMap;
use crate::sync::{CancellationToken, Mutex};

#[derive(Default)]
pub struct Queue {
    ready: Mutex<Ready>,
    /// Operations that JavaScript may cancel, by the ids of their replies.
    running: Mutex<FastMap<u64, Running>>,
}

#[derive(Default)]
struct Ready {
    replies: VecDeque<(u64, Reply)>,
    /// Whether a reply was added since the last `take`.
    announced: bool,
    /// Whether nobody takes replies any more.
    ended: bool,
}

struct Running {
    cancel: CancellationToken,
    /// Whether it was cancelled, perhaps too late for the engine to see it.
    unwanted: bool,
}

impl Queue {
    /// Adds a reply. Returns whether it is the first since the last `take`. Only then is a wake-up due.
    pub fn push(&self, id: u64, reply: Reply) -> bool {
        let (first, dropped) = self.enqueue(id, reply);
        drop(dropped);
        first
    }

    /// Returns whether the reply is the first, as in `push`, and the reply itself if nobody will take it.
    /// Drop it without holding a mutex, because that releases the lock in it.
    fn enqueue(&self, id: u64, reply: Reply) -> (bool, Option<Reply>) {
        let mut ready = self.ready.lock();
        if ready.ended {
            return (false, Some(reply));
        }
        ready.replies.push_back((id, reply));
        let first = !std::mem::replace(&mut ready.announced, true);
        (first, None)
    }

    /// Takes the oldest replies, at most `limit` of them. If some are left, call this again, because they
    /// cause no wake-up.
    pub fn take(&self, limit: usize) -> Vec<(u64, Reply)> {
        let mut ready = self.ready.lock();
        ready.announced = false;
        if ready.replies.len() <= limit {
            return std::mem::take(&mut ready.replies).into();
        }
        ready.replies.drain(..limit).collect()
    }

    /// Takes the reply that is ready, if it is the only one.
    pub fn take_single(&self) -> Option<(u64, Reply)> {
        let mut ready = self.ready.lock();
        if ready.replies.len() != 1 {
            return None;
        }
        ready.announced = false;
        ready.replies.pop_front()
    }

    pub fn len(&self) -> usize {
        self.ready.lock().replies.len()
    }

    /// Whether a reply was added since the last `take`.
    pub fn is_announced(&self) -> bool {
        self.ready.lock().announced
    }

    /// Whether `take` left replies that cause no wake-up.
    pub fn has_unannounced(&self) -> bool {
        let ready = self.ready.lock();
        !ready.announced && !ready.replies.is_empty()
    }

    pub fn start(&self, id: u64, cancel: CancellationToken) {
        let unwanted = false;
        self.running.lock().insert(id, Running { cancel, unwanted });
    }

    /// Cancels the operation whose reply has this id.
    pub fn cancel(&self, id: u64) {
        let running = self.running.lock().get_mut(&id).map(|running| {
            running.unwanted = true;
            running.cancel.clone()
        });
        match running {
            Some(cancel) => cancel.cancel(),
            None => self.revoke(id),
        }
    }

    /// Empties the reply with this id, if it is still in the queue.
    fn revoke(&self, id: u64) {
        let mut ready = self.ready.lock();
        let found = ready.replies.iter_mut().find(|(other, _)| *other == id);
        let unwanted = found.map(|(_, reply)| std::mem::replace(reply, Reply::nothing()));
        drop(ready);
        drop(unwanted);
    }

    /// Adds the reply to a running operation. Returns whether it is the first, as in `push`.
    pub fn finish(&self, id: u64, reply: Reply) -> bool {
        // One mutex is held for both steps, so that `cancel` finds the operation running or in the queue.
        let mut running = self.running.lock();
        let unwanted = running.remove(&id).is_some_and(|it| it.unwanted);
        let (reply, dropped) = if unwanted {
            (Reply::nothing(), Some(reply))
        } else {
            (reply, None)
        };
        let (first, refused) = self.enqueue(id, reply);
        drop(running);
        drop((dropped, refused));
        first
    }

    /// Forgets a running operation that will have no reply.
    pub fn forget(&self, id: u64) {
        self.running.lock().remove(&id);
    }

    /// Drops all replies, including those that are added later.
    pub fn end(&self) {
        let mut ready = self.ready.lock();
        ready.ended = true;
        let dropped = std::mem::take(&mut ready.replies);
        drop(ready);
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_that_a_take_leaves_are_known_until_announced_or_taken() {
        let queue = Queue::default();
        let reply = || Reply::from("1".to_owned());
        assert!(queue.push(1, reply()));
        let counted = queue.len();
        // Added by another thread after the count: it causes no wake-up.
        assert!(!queue.push(2, reply()));
        assert_eq!(queue.take(counted).len(), 1);
        assert!(queue.has_unannounced());
        assert!(queue.push(3, reply()));
        assert!(!queue.has_unannounced());
        assert_eq!(queue.take(usize::MAX).len(), 2);
        assert!(!queue.has_unannounced());
    }
}
