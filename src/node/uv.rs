//! Watches sockets on the JavaScript thread, with the functions of libuv that Node.js exports.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use libloading::os::unix::Library;

use super::panics::catch_panic;
use crate::net::event_loop::Event;

#[cfg(test)]
mod tests;

const UV_POLL: c_int = 8;
const UV_READABLE: c_int = 1;
const UV_WRITABLE: c_int = 2;
/// Far more bytes than any version of libuv needs for a handle.
const LARGEST_HANDLE: usize = 1 << 12;

pub type Loop = *mut c_void;
type Handle = *mut c_void;
type OnEvent = unsafe extern "C" fn(Handle, c_int, c_int);
type OnClosed = unsafe extern "C" fn(Handle);

struct Uv {
    handle_size: unsafe extern "C" fn(c_int) -> usize,
    handle_get_data: unsafe extern "C" fn(Handle) -> *mut c_void,
    handle_set_data: unsafe extern "C" fn(Handle, *mut c_void),
    poll_init: unsafe extern "C" fn(Loop, Handle, c_int) -> c_int,
    poll_start: unsafe extern "C" fn(Handle, c_int, OnEvent) -> c_int,
    unref: unsafe extern "C" fn(Handle),
    close: unsafe extern "C" fn(Handle, OnClosed),
    /// Keeps the functions above loaded.
    _library: Library,
}

static UV: LazyLock<Option<Uv>> = LazyLock::new(|| Uv::load(library()?));

#[cfg(not(test))]
fn library() -> Option<Library> {
    let program = Library::this();
    is_node(&program).then_some(program)
}

#[cfg(test)]
use tests::library;

/// Returns whether the program is Node.js itself. Bun and Deno export libuv's functions too, for addons that
/// are linked to them, but have no loop of libuv behind them: Bun ends the process if one is called, and
/// Deno's do not know our handles. They imitate everything that an addon may call. Only Node.js exports
/// `node::Start(int, char**)`, which a program calls to become Node.js.
fn is_node(program: &Library) -> bool {
    // SAFETY: the symbol is looked up, never called.
    unsafe { program.get::<*const c_void>(b"_ZN4node5StartEiPPc\0") }.is_ok()
}

impl Uv {
    fn load(library: Library) -> Option<Self> {
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the library contains libuv, and the fields have libuv's own signatures, which are
                // stable in version 1.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }.ok()?
            };
        }
        Some(Self {
            handle_size: function!("uv_handle_size"),
            handle_get_data: function!("uv_handle_get_data"),
            handle_set_data: function!("uv_handle_set_data"),
            poll_init: function!("uv_poll_init"),
            poll_start: function!("uv_poll_start"),
            unref: function!("uv_unref"),
            close: function!("uv_close"),
            _library: library,
        })
    }
}

pub fn is_available() -> bool {
    UV.is_some()
}

/// Watches a socket until this is dropped. Its raw pointer keeps it on the thread of its loop.
pub struct Poll {
    uv: &'static Uv,
    handle: Handle,
    writable: Cell<bool>,
}

/// The data of a handle, until libuv has closed it.
struct Data {
    /// The memory of the handle. It is a boxed slice, because only libuv knows the size.
    memory: *mut [u128],
    /// Kept open while libuv uses its file descriptor.
    _socket: Arc<TcpStream>,
    on_event: Rc<dyn Fn(Event)>,
}

impl Poll {
    /// Calls `on_event` when the socket can be read or is broken, and, if [`listen`](Self::listen) asks for it,
    /// when it can be written. Does not keep the program running. `on_event` is dropped when libuv has closed
    /// the handle. None if libuv refuses the socket.
    ///
    /// # Safety
    /// `uv_loop` must be a loop of libuv that runs on this thread only, and must not end before
    /// `on_event` was dropped.
    pub unsafe fn new(
        uv_loop: Loop,
        socket: Arc<TcpStream>,
        on_event: impl Fn(Event) + 'static,
    ) -> Option<Self> {
        let uv = UV.as_ref()?;
        // SAFETY: the function has no side effects, and takes any number.
        let size = unsafe { (uv.handle_size)(UV_POLL) };
        if !(1..=LARGEST_HANDLE).contains(&size) {
            return None;
        }
        // 128-bit numbers give the memory the alignment of `malloc`.
        let memory = vec![0; size.div_ceil(size_of::<u128>())].into_boxed_slice();
        let memory: *mut [u128] = Box::into_raw(memory);
        let handle: Handle = memory.cast();
        // SAFETY: the caller guarantees that this is the loop's thread. The handle is as large as libuv
        // asked for, and nothing else uses it.
        let status = unsafe { (uv.poll_init)(uv_loop, handle, socket.as_raw_fd()) };
        if status != 0 {
            // SAFETY: the memory came from a box, and libuv does not know a handle whose init failed.
            drop(unsafe { Box::from_raw(memory) });
            return None;
        }
        let data = Box::new(Data {
            memory,
            _socket: socket,
            on_event: Rc::new(on_event),
        });
        // SAFETY: the handle is initialised. The data is freed with it, by `on_closed`.
        unsafe {
            (uv.handle_set_data)(handle, Box::into_raw(data).cast());
            (uv.unref)(handle);
        }
        let poll = Self {
            uv,
            handle,
            writable: Cell::new(false),
        };
        poll.start().then_some(poll)
    }

    /// Sets whether to wait until the socket can be written too. Returns whether libuv still watches it.
    pub fn listen(&self, writable: bool) -> bool {
        self.writable.replace(writable) == writable || self.start()
    }

    fn start(&self) -> bool {
        let events = if self.writable.get() {
            UV_READABLE | UV_WRITABLE
        } else {
            UV_READABLE
        };
        // SAFETY: the handle is initialised, and only `drop` closes it.
        unsafe { (self.uv.poll_start)(self.handle, events, on_event) == 0 }
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        // SAFETY: the handle is initialised, and closed only here, once. This is the thread of its
        // loop, as a `Poll` cannot leave it. What the handle needs is freed by `on_closed`.
        unsafe { (self.uv.close)(self.handle, on_closed) };
    }
}

unsafe extern "C" fn on_event(handle: Handle, status: c_int, _events: c_int) {
    catch_panic(|| {
        let Some(uv) = UV.as_ref() else { return };
        // SAFETY: libuv calls this for handles made above, whose data lives until `on_closed`.
        // Only the clone is used afterwards: JavaScript may run the loop, and so close and free
        // the handle, before this returns.
        let on_event = unsafe {
            let data: *const Data = (uv.handle_get_data)(handle).cast();
            Rc::clone(&(*data).on_event)
        };
        // A socket with an error gets no more events: libuv has stopped watching it.
        on_event(if status < 0 {
            Event::Broken
        } else {
            Event::Ready
        });
    });
}

unsafe extern "C" fn on_closed(handle: Handle) {
    catch_panic(|| {
        let Some(uv) = UV.as_ref() else { return };
        // SAFETY: libuv calls this once for a handle made above, and does not use it afterwards:
        // both boxes are ours again.
        let data = unsafe {
            let data = Box::from_raw((uv.handle_get_data)(handle).cast::<Data>());
            drop(Box::from_raw(data.memory));
            data
        };
        drop(data);
    });
}
