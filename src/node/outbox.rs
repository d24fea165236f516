//! Replies on their way to JavaScript, and the locks among them until JavaScript has them.
//!
//! JavaScript may end in the very call that brings it a lock: `worker.terminate()`, or `process.exit()`
//! in a worker. A lock that did not reach the program would stay locked until its TTL. One that did
//! may be in use, or the program may have passed its lockId on. So JavaScript confirms the locks that
//! it received ([`Receipts`]). Locks that it did not confirm are released when it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::queue::Queue;
use super::receipts::{Claimed, Receipts};
use super::reply::{Reply, Unclaimed};
use crate::client::parked;
use crate::error::Error;

/// The id of messages that are no replies. A letter says what a message is.
const MESSAGE: u64 = 0;

/// The replies for one [`Bridge`](super::bridge::Bridge).
pub(super) struct Outbox {
    pub queue: Queue,
    handed: Mutex<Handed>,
    bridge: u64,
    next_id: AtomicU64,
    /// Wakes the JavaScript thread, which then takes the replies that are ready.
    wake: Box<dyn Fn() + Send + Sync>,
}

/// Locks that were handed to JavaScript and are not confirmed yet.
#[derive(Default)]
struct Handed {
    /// By the id of their replies.
    unclaimed: Vec<(u64, Unclaimed)>,
    /// None if JavaScript receives nothing any more.
    receipts: Option<Receipts>,
}

impl Outbox {
    pub fn new(bridge: u64, receipts: Receipts, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            queue: Queue::default(),
            handed: Mutex::new(Handed {
                unclaimed: Vec::new(),
                receipts: Some(receipts),
            }),
            bridge,
            next_id: AtomicU64::new(MESSAGE + 1),
            wake: Box::new(wake),
        }
    }

    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Runs `work` and the operations that it wakes, on the JavaScript thread. The caller makes sure that
    /// the replies are taken.
    pub fn in_turn<T>(&self, runtime: &Handle, work: impl FnOnce() -> T) -> T {
        parked::turn(self.bridge, runtime, work)
    }

    pub fn start(&self, id: u64, cancel: CancellationToken) {
        self.queue.start(id, cancel);
    }

    /// Cancels the operation whose reply has this id.
    pub fn cancel(&self, id: u64) {
        self.queue.cancel(id);
    }

    /// Returns what sends the reply with this id.
    pub fn pending(self: &Arc<Self>, id: u64) -> Pending {
        Pending {
            outbox: Arc::clone(self),
            id,
            settled: false,
        }
    }

    pub fn post(&self, id: u64, reply: Reply) {
        self.wake_after(self.queue.push(id, reply));
    }

    /// Sends a message. `js/native/bridge.js` lists the kinds.
    pub fn message(&self, kind: char, text: &str) {
        self.post(MESSAGE, format!("{kind}{text}").into());
    }

    pub fn warn(&self, text: &str) {
        self.message('W', text);
    }

    /// Wakes the JavaScript thread for a reply. `first`: whether no other reply is ready, so that it was
    /// not woken yet. In a turn of this bridge the replies are taken without a wake-up.
    fn wake_after(&self, first: bool) {
        if first && !parked::is_in_turn_of(self.bridge) {
            self.wake();
        }
    }

    pub fn wake(&self) {
        (self.wake)();
    }

    pub fn wake_if_ready(&self) {
        if self.queue.is_announced() {
            self.wake();
        }
    }

    /// Returns the text of a reply that is brought to JavaScript under this id.
    pub fn hand_over(&self, id: u64, reply: Reply) -> String {
        let (text, unclaimed) = reply.into_parts();
        self.expect_receipt(id, unclaimed);
        text
    }

    /// Returns the text of a reply that a call returns. JavaScript learns its id only if there is a lock
    /// to confirm.
    pub fn hand_over_at_once(&self, id: u64, reply: Reply) -> String {
        let (text, unclaimed) = reply.into_parts();
        if unclaimed.is_some() {
            // The event loop reads receipts too, but it may not run for a long time.
            self.read_receipts();
            if let Some(receipts) = &mut self.handed.lock().receipts {
                receipts.announce(id);
            }
            self.expect_receipt(id, unclaimed);
        }
        text
    }

    /// Keeps a lock until JavaScript confirms it.
    pub fn expect_receipt(&self, id: u64, unclaimed: Option<Unclaimed>) {
        if let Some(unclaimed) = unclaimed {
            let mut handed = self.handed.lock();
            if handed.receipts.is_some() {
                handed.unclaimed.push((id, unclaimed));
            }
        }
    }

    /// Reads which locks JavaScript has confirmed.
    pub fn read_receipts(&self) {
        let mut handed = self.handed.lock();
        let Handed {
            unclaimed,
            receipts,
        } = &mut *handed;
        let claimed: Vec<_> = match receipts.as_mut().map(Receipts::take) {
            None | Some(Claimed::None) => return,
            Some(Claimed::All) => std::mem::take(unclaimed),
            Some(Claimed::Some(ids)) => unclaimed
                .extract_if(.., |(id, _)| ids.binary_search(id).is_ok())
                .collect(),
        };
        drop(handed);
        for (_, lock) in claimed {
            lock.claim();
        }
    }

    /// Releases the locks that JavaScript did not confirm, now and later, because it has ended.
    pub fn end(&self) {
        self.read_receipts();
        let handed = std::mem::take(&mut *self.handed.lock());
        drop(handed);
        self.queue.end();
    }
}

/// Sends the reply to an operation. If its task ends without one, it sends an error, so that no promise
/// stays pending.
pub(super) struct Pending {
    outbox: Arc<Outbox>,
    id: u64,
    settled: bool,
}

impl Pending {
    /// Answers the caller. `finish` must follow.
    pub fn interim(&mut self, reply: Reply) {
        self.outbox.post(self.id, reply.interim());
    }

    pub fn finish(mut self, reply: Reply) {
        self.settled = true;
        let first = self.outbox.queue.finish(self.id, reply);
        self.outbox.wake_after(first);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.settled {
            self.outbox.queue.forget(self.id);
            let error = Error::internal(
                "The operation failed because of a bug in syncguard. Please report it",
            );
            self.outbox.post(self.id, error.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::receipts::{CELLS, COUNT, FIRST, RETURNED, ROOM};
    use super::*;

    /// An outbox, JavaScript's side of its receipts, and the sum of the ids that were released.
    struct Delivery {
        outbox: Outbox,
        cells: Box<[f64; CELLS]>,
        released: Arc<AtomicU64>,
    }

    impl Delivery {
        fn new() -> Self {
            let mut cells = Box::new([0.0; CELLS]);
            let receipts = Receipts::in_memory(&mut cells);
            Self {
                outbox: Outbox::new(0, receipts, || {}),
                cells,
                released: Arc::default(),
            }
        }

        fn lock(&self, id: u64) -> Reply {
            let released = Arc::clone(&self.released);
            let reply: Reply = "A".to_owned().into();
            reply.or_else(move || {
                released.fetch_add(id, Ordering::Relaxed);
            })
        }

        fn confirm(&mut self, id: u64) {
            let next = FIRST + self.cells[COUNT] as usize;
            self.cells[COUNT] += 1.0;
            if let Some(cell) = self.cells.get_mut(next) {
                *cell = id as f64;
            }
        }

        fn end(&self) -> u64 {
            self.outbox.end();
            self.released.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_lock_that_was_not_confirmed_is_released_at_the_end() {
        let mut delivery = Delivery::new();
        for id in [1, 10, 100, 1000] {
            delivery.outbox.hand_over(id, delivery.lock(id));
        }
        delivery.confirm(100);
        delivery.outbox.read_receipts();
        assert_eq!(delivery.released.load(Ordering::Relaxed), 0);
        delivery.confirm(1);
        assert_eq!(delivery.end(), 1010);
        delivery.outbox.hand_over(10_000, delivery.lock(10_000));
        delivery.outbox.queue.push(20_000, delivery.lock(20_000));
        assert_eq!(delivery.end(), 31_010);
    }

    #[test]
    fn a_lock_that_a_call_returned_is_confirmed_by_its_id_too() {
        let mut delivery = Delivery::new();
        for id in [1, 10] {
            delivery.outbox.hand_over_at_once(id, delivery.lock(id));
            assert_eq!(delivery.cells[RETURNED], id as f64);
        }
        delivery.confirm(10);
        assert_eq!(delivery.end(), 1);
    }

    #[test]
    fn what_cannot_be_confirmed_for_lack_of_room_is_not_released() {
        let mut delivery = Delivery::new();
        for id in 1..=ROOM as u64 + 1 {
            delivery.outbox.hand_over(id, delivery.lock(id));
            delivery.confirm(id);
        }
        assert_eq!(delivery.end(), 0);
    }
}
