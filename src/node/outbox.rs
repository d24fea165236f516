//! Replies on their way to JavaScript, and the locks among them until JavaScript has them.
//!
//! JavaScript may end in the very call that brings it a lock: `worker.terminate()`, or `process.exit()`
//! in a worker. A lock that did not reach the program would stay locked until its TTL. One that did
//! may be in use, or the program may have passed its lockId on. So JavaScript confirms the locks that
//! it received ([`Receipts`]). Locks that it did not confirm are released when it ends.

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use napi::bindgen_prelude::{FromNapiValue, Unknown};
use napi::sys::Status;
use napi::{Env, sys};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::operation::Outcome;
use super::queue::Queue;
use super::reply::{Reply, Unclaimed};
use crate::client::parked;
use crate::error::Error;

/// The id of messages that are not replies. The first letter of a message says what kind it is.
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
    /// The locks, each with the id of its reply.
    unclaimed: Vec<(u64, Unclaimed)>,
    /// None if JavaScript no longer receives anything.
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

    /// Runs `work` and the operations that it wakes, on the JavaScript thread. The caller ensures that the
    /// replies are delivered.
    pub fn in_turn<T>(&self, runtime: &Handle, work: impl FnOnce() -> T) -> T {
        parked::turn(self.bridge, runtime, work)
    }

    /// Returns an object that sends the reply with this id.
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

    /// Sends a message. `js/native/messages.js` lists the kinds.
    pub fn message(&self, kind: char, text: &str) {
        self.post(MESSAGE, format!("{kind}{text}").into());
    }

    pub fn warn(&self, text: &str) {
        self.message('W', text);
    }

    /// Wakes the JavaScript thread for a reply. `first` says that no other reply was ready, so the thread
    /// was not woken yet. In a turn of this bridge the replies are delivered without a wake-up.
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

    /// Returns the text of a reply that is delivered to JavaScript under this id.
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

/// Sends the reply to an operation. If the operation's task ends without a reply, this sends an error, so
/// that no promise stays pending.
pub(super) struct Pending {
    outbox: Arc<Outbox>,
    id: u64,
    settled: bool,
}

impl Pending {
    /// Answers the caller, and runs the undo if there is one.
    pub async fn conclude(self, Outcome { reply, undo }: Outcome) {
        let Some(undo) = undo else {
            return self.finish(reply);
        };
        self.outbox.post(self.id, reply.interim());
        undo.await;
        self.finish(Reply::nothing());
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

/// How many ids the memory has room for. If JavaScript confirms more, all locks count as confirmed,
/// because a lock that may be in use must not be released.
pub(super) const ROOM: usize = 256;
/// The cell with the number of ids that JavaScript has written.
const COUNT: usize = 0;
/// The cell with the id of the lock that a call has returned.
const RETURNED: usize = 1;
const FIRST: usize = 2;
pub(super) const CELLS: usize = FIRST + ROOM;

/// The memory in which JavaScript confirms locks. Writing there is far cheaper than a call. It has the
/// cells `COUNT` and `RETURNED`, followed by ids: see `confirm` in `js/native/bridge.js`.
pub(super) struct Receipts(NonNull<f64>);

// SAFETY: it is used only on the JavaScript thread, which writes there too. Dropping the `Outbox` on another
// thread does not access the memory.
unsafe impl Send for Receipts {}

/// What JavaScript has confirmed.
enum Claimed {
    None,
    /// In ascending order.
    Some(Vec<u64>),
    All,
}

impl Receipts {
    #[cfg(test)]
    pub fn in_memory(cells: &mut [f64; CELLS]) -> Self {
        Self(NonNull::from(&mut cells[0]))
    }

    fn cells(&mut self) -> &mut [f64] {
        // SAFETY: the memory has `CELLS` cells and lives as long as `SharedMemory`, which outlives
        // `Outbox::end`. JavaScript does not run while the slice is used.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), CELLS) }
    }

    /// Tells JavaScript the id of the lock that the current call returns.
    fn announce(&mut self, id: u64) {
        self.cells()[RETURNED] = id as f64;
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

/// Keeps the memory of `Receipts` alive. The buffer belongs to the environment's own context, so it does
/// not keep the context alive that uses it.
pub(super) struct SharedMemory {
    env: sys::napi_env,
    buffer: sys::napi_ref,
}

impl SharedMemory {
    /// Called by JavaScript. The result stays on its thread.
    pub fn new(env: Env) -> napi::Result<(Self, Receipts)> {
        let env = env.raw();
        let (mut cells, mut value, mut buffer) =
            (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // SAFETY: the environment calls us. The memory is not moved while there is a reference to the
        // buffer.
        let status = unsafe {
            let size = CELLS * size_of::<f64>();
            match sys::napi_create_arraybuffer(env, size, &raw mut cells, &raw mut value) {
                Status::napi_ok => sys::napi_create_reference(env, value, 1, &raw mut buffer),
                failed => failed,
            }
        };
        match NonNull::new(cells.cast()) {
            Some(cells) if status == Status::napi_ok => Ok((Self { env, buffer }, Receipts(cells))),
            _ => Err(napi::Error::from_reason(
                "The memory for receipts cannot be created",
            )),
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

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the reference is deleted only here, on the thread of the environment. The environment is
        // alive, because it drops what JavaScript owns before it ends.
        unsafe { sys::napi_delete_reference(self.env, self.buffer) };
    }
}

#[cfg(test)]
mod tests;
