//! The memory in which JavaScript confirms that it received a lock. Writing there is far cheaper than a
//! call.

use std::mem;
use std::ptr::{self, NonNull};
use std::slice;

use napi::bindgen_prelude::{FromNapiValue, Unknown};
use napi::sys::Status;
use napi::{Env, sys};

/// How many ids the memory has room for. If JavaScript confirms more, all locks count as confirmed,
/// because a lock that may be in use must not be released.
pub(super) const ROOM: usize = 256;
/// The cell with the number of ids that JavaScript has written.
pub(super) const COUNT: usize = 0;
/// The cell with the id of the lock that a call has returned.
pub(super) const RETURNED: usize = 1;
pub(super) const FIRST: usize = 2;
pub(super) const CELLS: usize = FIRST + ROOM;

/// The shared memory: `COUNT`, `RETURNED`, then ids. See `confirm` in `js/native/bridge.js`.
pub(super) struct Receipts(NonNull<f64>);

// SAFETY: it is used only on the JavaScript thread, which writes there too. Dropping the `Outbox` on another
// thread does not access the memory.
unsafe impl Send for Receipts {}

/// What JavaScript has confirmed.
pub(super) enum Claimed {
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
        // SAFETY: so many cells are there as long as `Shared` is, which outlives `Outbox::end`.
        // JavaScript does not run while the slice is used.
        unsafe { slice::from_raw_parts_mut(self.0.as_ptr(), CELLS) }
    }

    /// Tells JavaScript the id of the lock that the current call returns.
    pub fn announce(&mut self, id: u64) {
        self.cells()[RETURNED] = id as f64;
    }

    pub fn take(&mut self) -> Claimed {
        let cells = self.cells();
        let count = mem::take(&mut cells[COUNT]) as usize;
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

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it is deleted only here, on the thread of the environment, which lives: it drops
        // what JavaScript owns before it ends.
        unsafe { sys::napi_delete_reference(self.env, self.buffer) };
    }
}
