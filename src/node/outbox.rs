//! Replies on their way to JavaScript, and the locks among them until JavaScript has them.
//!
//! JavaScript may end in the very call that brings it a lock: `worker.terminate()`, or `process.exit()`
//! in a worker. A lock that did not reach the program would stay locked until its TTL. One that did
//! may be in use, or the program may have passed its lockId on. So JavaScript confirms the locks that
//! it received: it writes their numbers into shared memory, which is far cheaper than a call. Locks
//! that it did not confirm are released when it ends.

use parking_lot::Mutex;
use std::ptr::{self, NonNull};
use std::slice;

use napi::bindgen_prelude::{FromNapiValue, Unknown};
use napi::sys::Status;
use napi::{Env, sys};

use super::queue::Queue;
use super::reply::{Reply, Unclaimed};

#[derive(Default)]
pub(super) struct Outbox {
    pub queue: Queue,
    handed: Mutex<Handed>,
}

/// Locks that were handed to JavaScript and are not confirmed yet.
#[derive(Default)]
struct Handed {
    /// By the id of their replies.
    unclaimed: Vec<(u64, Unclaimed)>,
    /// None if JavaScript receives nothing, or nothing any more.
    receipts: Option<Receipts>,
}

impl Outbox {
    pub fn new(receipts: Receipts) -> Self {
        let handed = Handed {
            receipts: Some(receipts),
            ..Handed::default()
        };
        Self {
            queue: Queue::default(),
            handed: Mutex::new(handed),
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
                receipts.cells()[RETURNED] = id as f64;
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

/// How many ids the memory has room for. If JavaScript confirms more, all locks count as confirmed,
/// because a lock that may be in use must not be released.
pub(super) const ROOM: usize = 256;
/// The cell with the number of ids that JavaScript has written.
const COUNT: usize = 0;
/// The cell with the id of the lock that a call has returned.
const RETURNED: usize = 1;
const FIRST: usize = 2;
const CELLS: usize = FIRST + ROOM;

/// The shared memory: `COUNT`, `RETURNED`, then ids. See `confirm` in `js/native/bridge.js`.
pub(super) struct Receipts(NonNull<f64>);

// SAFETY: it is used only on the JavaScript thread, which writes there too. Whoever drops the
// `Outbox` does not look at it.
unsafe impl Send for Receipts {}

enum Claimed {
    None,
    /// In ascending order.
    Some(Vec<u64>),
    All,
}

impl Receipts {
    fn cells(&mut self) -> &mut [f64] {
        // SAFETY: so many cells are there as long as `Shared` is, which outlives `Outbox::end`.
        // JavaScript does not run while the slice is used.
        unsafe { slice::from_raw_parts_mut(self.0.as_ptr(), CELLS) }
    }

    fn take(&mut self) -> Claimed {
        let cells = self.cells();
        let count = std::mem::take(&mut cells[COUNT]) as usize;
        match cells[FIRST..].get(..count) {
            None => Claimed::All,
            Some([]) => Claimed::None,
            Some(ids) => {
                let mut ids: Vec<u64> = ids.iter().map(|id| *id as u64).collect();
                ids.sort_unstable();
                Claimed::Some(ids)
            }
        }
    }
}

/// Keeps the memory of `Receipts`. The buffer belongs to the environment's own context, so it does not
/// keep the context alive that uses it.
pub(super) struct Shared {
    env: sys::napi_env,
    buffer: sys::napi_ref,
}

impl Shared {
    /// Called by JavaScript. The result stays on its thread.
    pub fn new(env: Env) -> napi::Result<(Self, Receipts)> {
        let env = env.raw();
        let (mut cells, mut value, mut buffer) =
            (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // SAFETY: the environment calls us. The memory stays where it is as long as the buffer is
        // referred to.
        let status = unsafe {
            let size = CELLS * size_of::<f64>();
            match sys::napi_create_arraybuffer(env, size, &raw mut cells, &raw mut value) {
                Status::napi_ok => sys::napi_create_reference(env, value, 1, &raw mut buffer),
                failed => failed,
            }
        };
        match NonNull::new(cells.cast()) {
            Some(cells) if status == Status::napi_ok => Ok((Self { env, buffer }, Receipts(cells))),
            _ => Err(napi::Error::from_reason("No memory could be shared")),
        }
    }

    pub fn value<'env>(&self) -> napi::Result<Unknown<'env>> {
        let mut value = ptr::null_mut();
        // SAFETY: JavaScript calls us, on the thread of the environment.
        unsafe {
            sys::napi_get_reference_value(self.env, self.buffer, &raw mut value);
            Unknown::from_napi_value(self.env, value)
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it is deleted only here, on the thread of the environment, which lives: it drops
        // what JavaScript owns before it ends.
        unsafe { sys::napi_delete_reference(self.env, self.buffer) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// An outbox, JavaScript's side of its memory, and the sum of the ids that were released.
    struct Delivery {
        outbox: Outbox,
        cells: Box<[f64; CELLS]>,
        released: Arc<AtomicU64>,
    }

    impl Delivery {
        fn new() -> Self {
            let mut cells = Box::new([0.0; CELLS]);
            let receipts = Receipts(NonNull::from(&mut cells[0]));
            Self {
                outbox: Outbox::new(receipts),
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
