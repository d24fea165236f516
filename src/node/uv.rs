//! libuv as Node.js exports it: what it takes to watch a socket on the JavaScript thread.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::LazyLock;

use libloading::os::unix::Library;
use napi::sys;

const UV_POLL: c_int = 8;
const UV_READABLE: c_int = 1;
const UV_WRITABLE: c_int = 2;
/// As `malloc` aligns.
const ALIGNMENT: usize = 16;

type Handle = *mut c_void;
type OnEvent = unsafe extern "C" fn(Handle, c_int, c_int);
type OnClose = unsafe extern "C" fn(Handle);

struct Uv {
    handle_size: unsafe extern "C" fn(c_int) -> usize,
    handle_get_data: unsafe extern "C" fn(Handle) -> *mut c_void,
    handle_set_data: unsafe extern "C" fn(Handle, *mut c_void),
    poll_init: unsafe extern "C" fn(*mut sys::uv_loop_s, Handle, c_int) -> c_int,
    poll_start: unsafe extern "C" fn(Handle, c_int, OnEvent) -> c_int,
    unref: unsafe extern "C" fn(Handle),
    close: unsafe extern "C" fn(Handle, OnClose),
    /// Keeps the functions above loaded.
    _program: Library,
}

static UV: LazyLock<Option<Uv>> = LazyLock::new(|| {
    let program = Library::this();
    macro_rules! function {
        ($name:literal) => {
            // SAFETY: these are libuv's own signatures, stable for all of version 1, and the
            // program that exports them is Node.js.
            *unsafe { program.get(concat!($name, "\0").as_bytes()) }.ok()?
        };
    }
    Some(Uv {
        handle_size: function!("uv_handle_size"),
        handle_get_data: function!("uv_handle_get_data"),
        handle_set_data: function!("uv_handle_set_data"),
        poll_init: function!("uv_poll_init"),
        poll_start: function!("uv_poll_start"),
        unref: function!("uv_unref"),
        close: function!("uv_close"),
        _program: program,
    })
});

pub fn is_available() -> bool {
    UV.is_some()
}

/// A socket under watch. Bound, by its pointer, to the thread of its loop.
pub struct Poll {
    uv: &'static Uv,
    /// Valid until `close`, which takes it away.
    handle: Handle,
}

/// What a handle carries. Freed with it.
struct Data {
    layout: Layout,
    on_event: Rc<dyn Fn()>,
    on_close: Option<Box<dyn FnOnce()>>,
}

impl Poll {
    /// Calls `on_event`, which must not panic, when the socket can be read, or written if that is
    /// asked for. Does not keep the program running. Nothing when libuv does not want to.
    ///
    /// # Safety
    /// `uv_loop` must be the loop of this thread, and `socket` stay open until this is closed.
    pub unsafe fn new(
        uv_loop: *mut sys::uv_loop_s,
        socket: RawFd,
        on_event: Rc<dyn Fn()>,
    ) -> Option<Self> {
        let uv = UV.as_ref()?;
        // SAFETY: a function without side effects.
        let size = unsafe { (uv.handle_size)(UV_POLL) };
        let layout = Layout::from_size_align(size, ALIGNMENT).ok()?;
        if size == 0 {
            return None;
        }
        // SAFETY: the layout is not empty.
        let handle: Handle = unsafe { alloc_zeroed(layout) }.cast();
        if handle.is_null() {
            return None;
        }
        // SAFETY: the handle is as large as libuv asked for, and nobody else uses it.
        let status = unsafe { (uv.poll_init)(uv_loop, handle, socket) };
        if status != 0 {
            // SAFETY: a handle whose init failed is not known to the loop.
            unsafe { dealloc(handle.cast(), layout) };
            return None;
        }
        let data = Box::new(Data {
            layout,
            on_event,
            on_close: None,
        });
        // SAFETY: the handle is initialised; the data is freed when it is closed, not before.
        unsafe {
            (uv.handle_set_data)(handle, Box::into_raw(data).cast());
            (uv.unref)(handle);
        }
        let poll = Self { uv, handle };
        poll.listen(false);
        Some(poll)
    }

    /// Sets what to wait for: reading, and writing too if asked for.
    pub fn listen(&self, writable: bool) {
        let events = if writable {
            UV_READABLE | UV_WRITABLE
        } else {
            UV_READABLE
        };
        // SAFETY: the handle is not closed. It fails only for a handle that is being closed.
        unsafe { (self.uv.poll_start)(self.handle, events, on_event) };
    }

    /// `on_close`, which must not panic, is called when libuv has let go of the socket.
    pub fn close(self, on_close: impl FnOnce() + 'static) {
        // SAFETY: the handle is not closed yet, as that takes `self`. Its data is only used on this
        // thread, and no reference to this field exists.
        unsafe {
            let data: *mut Data = (self.uv.handle_get_data)(self.handle).cast();
            (&raw mut (*data).on_close).write(Some(Box::new(on_close)));
            (self.uv.close)(self.handle, on_closed);
        }
    }
}

unsafe extern "C" fn on_event(handle: Handle, _status: c_int, _events: c_int) {
    let Some(uv) = UV.as_ref() else { return };
    // SAFETY: libuv calls this for handles made above, whose data lives until they are closed.
    let on_event = unsafe {
        let data: *const Data = (uv.handle_get_data)(handle).cast();
        Rc::clone(&(*data).on_event)
    };
    // Only the clone is used from here on: JavaScript may run the loop, and so close the handle,
    // before this returns.
    on_event();
}

unsafe extern "C" fn on_closed(handle: Handle) {
    let Some(uv) = UV.as_ref() else { return };
    // SAFETY: libuv calls this once, when it has no use for the handle any more.
    let data = unsafe { Box::from_raw((uv.handle_get_data)(handle).cast::<Data>()) };
    // SAFETY: it was allocated with this layout.
    unsafe { dealloc(handle.cast(), data.layout) };
    let Data { on_close, .. } = *data;
    if let Some(on_close) = on_close {
        on_close();
    }
}
