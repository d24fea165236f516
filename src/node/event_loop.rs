//! Node's event loop as the core sees it: it watches sockets, and what they bring goes to
//! JavaScript from the same callback.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use napi::bindgen_prelude::ToNapiValue;
use napi::{Env, sys};
use tokio::runtime::Handle;

use super::bridge::Completions;
use super::reply::Reply;
use super::runtime::runtime;
use super::uv::{self, Poll};
use crate::event_loop::{EventLoop, Interest, Watched};

/// Replies in one call of JavaScript: as arguments they are far cheaper to pass than in an array.
const AT_ONCE: usize = 64;

/// The part that any thread may use.
struct NodeLoop {
    thread: ThreadId,
    completions: Arc<Completions>,
    gathering: AtomicBool,
    nudged: AtomicBool,
    /// Sockets that are to be watched; nothing when the loop has ended.
    incoming: Mutex<Option<Vec<Arc<dyn Watched>>>>,
}

/// The part that stays on the loop's thread.
struct Local {
    shared: Arc<NodeLoop>,
    runtime: Handle,
    env: sys::napi_env,
    uv_loop: *mut sys::uv_loop_s,
    on_replies: sys::napi_ref,
    watches: RefCell<Vec<Watch>>,
    next_watch: Cell<u64>,
    /// Those watched, and those that libuv has not let go yet.
    handles: Cell<usize>,
    /// Called when the last of them is gone.
    on_end: Cell<Option<sys::napi_async_cleanup_hook_handle>>,
}

struct Watch {
    id: u64,
    socket: Arc<dyn Watched>,
    poll: Poll,
    interest: Cell<Interest>,
}

thread_local! {
    /// By the id of their bridge: a thread may have several.
    static LOOPS: RefCell<HashMap<u64, Rc<Local>>> = RefCell::default();
}

/// The event loop of this thread, for the bridge with this id; nothing when it cannot be used.
pub fn attach(
    id: u64,
    env: Env,
    on_replies: sys::napi_value,
    completions: Arc<Completions>,
) -> Option<Arc<dyn EventLoop>> {
    if !uv::is_available() {
        return None;
    }
    let uv_loop = env.get_uv_event_loop().ok()?;
    let mut reference = ptr::null_mut();
    // SAFETY: `on_replies` is a value of this environment, alive during this call.
    let status =
        unsafe { sys::napi_create_reference(env.raw(), on_replies, 1, &raw mut reference) };
    if status != sys::Status::napi_ok {
        return None;
    }
    let shared = Arc::new(NodeLoop {
        thread: thread::current().id(),
        completions,
        gathering: AtomicBool::new(false),
        nudged: AtomicBool::new(false),
        incoming: Mutex::new(Some(Vec::new())),
    });
    let local = Rc::new(Local {
        shared: Arc::clone(&shared),
        runtime: runtime().ok()?.handle().clone(),
        env: env.raw(),
        uv_loop,
        on_replies: reference,
        watches: RefCell::default(),
        next_watch: Cell::new(0),
        handles: Cell::new(0),
        on_end: Cell::new(None),
    });
    let end = Box::into_raw(Box::new(id));
    // SAFETY: the hook takes the box back; the environment calls it once.
    let status = unsafe {
        sys::napi_add_async_cleanup_hook(env.raw(), Some(on_end), end.cast(), ptr::null_mut())
    };
    if status != sys::Status::napi_ok {
        // SAFETY: the hook was not registered, so nobody else has the box.
        drop(unsafe { Box::from_raw(end) });
        return None;
    }
    LOOPS.with_borrow_mut(|loops| loops.insert(id, local));
    Some(shared)
}

/// Does what other threads asked for, and returns what is ready for JavaScript.
pub fn serve(id: u64) -> Option<Vec<(u64, Reply)>> {
    let local = LOOPS.with_borrow(|loops| loops.get(&id).cloned())?;
    Some(local.serve())
}

/// The environment is about to end: libuv must let go of all handles before its loop does.
unsafe extern "C" fn on_end(hook: sys::napi_async_cleanup_hook_handle, id: *mut c_void) {
    // SAFETY: made by `attach`, for this one call.
    let id = unsafe { Box::from_raw(id.cast::<u64>()) };
    let local = LOOPS.with_borrow_mut(|loops| loops.remove(&*id));
    match local {
        // A panic must not unwind into Node.
        Some(local) => drop(catch_unwind(AssertUnwindSafe(|| local.end(hook)))),
        None => remove_hook(hook),
    }
}

fn remove_hook(hook: sys::napi_async_cleanup_hook_handle) {
    // SAFETY: the handle is the one the hook was called with, and is given back once.
    unsafe { sys::napi_remove_async_cleanup_hook(hook) };
}

impl Local {
    fn serve(self: &Rc<Self>) -> Vec<(u64, Reply)> {
        self.shared.completions.turn(&self.runtime, || {
            let incoming = self.shared.incoming().as_mut().map(std::mem::take);
            for socket in incoming.into_iter().flatten() {
                self.watch(socket);
            }
            if self.shared.nudged.swap(false, Ordering::AcqRel) {
                self.turn_all(true);
            }
        })
    }

    fn watch(self: &Rc<Self>, socket: Arc<dyn Watched>) {
        let id = self.next_watch.replace(self.next_watch.get() + 1);
        let local = Rc::downgrade(self);
        let on_event = move || {
            // A panic must not unwind into libuv.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                if let Some(local) = local.upgrade() {
                    local.on_event(id);
                }
            }));
        };
        // SAFETY: this runs on the loop's thread; the socket is kept until the handle is closed.
        let poll =
            unsafe { Poll::new(self.uv_loop, socket.socket().as_raw_fd(), Rc::new(on_event)) };
        let Some(poll) = poll else {
            return socket.close();
        };
        self.handles.set(self.handles.get() + 1);
        self.watches.borrow_mut().push(Watch {
            id,
            socket,
            poll,
            interest: Cell::new(Interest::Read),
        });
    }

    fn on_event(self: &Rc<Self>, id: u64) {
        let completions = &self.shared.completions;
        let ready = completions.turn(&self.runtime, || self.turn(id, true));
        if ready.is_empty() {
            return;
        }
        // Alone, a caller's next request is written when it is made.
        let gathering = ready.len() > 1;
        self.shared.gathering.store(gathering, Ordering::Relaxed);
        self.deliver(ready);
        self.shared.gathering.store(false, Ordering::Relaxed);
        if gathering {
            let ready = completions.turn(&self.runtime, || self.turn_all(false));
            self.deliver(ready);
        }
    }

    fn turn_all(self: &Rc<Self>, readable: bool) {
        let ids: Vec<u64> = self.watches.borrow().iter().map(|watch| watch.id).collect();
        for id in ids {
            self.turn(id, readable);
        }
    }

    fn turn(self: &Rc<Self>, id: u64, readable: bool) {
        let mut watches = self.watches.borrow_mut();
        let Some(index) = watches.iter().position(|watch| watch.id == id) else {
            return;
        };
        let watch = &watches[index];
        let interest = watch.socket.turn(readable);
        if interest == Interest::Nothing {
            let watch = watches.swap_remove(index);
            drop(watches);
            self.forget(watch);
        } else if watch.interest.replace(interest) != interest {
            watch.poll.listen(interest == Interest::ReadAndWrite);
        }
    }

    fn forget(self: &Rc<Self>, Watch { socket, poll, .. }: Watch) {
        let local = Rc::clone(self);
        poll.close(move || {
            drop(socket);
            local.handles.set(local.handles.get() - 1);
            local.end_if_all_are_closed();
        });
    }

    fn end(self: &Rc<Self>, hook: sys::napi_async_cleanup_hook_handle) {
        let incoming = self.shared.incoming().take();
        let watches = self.watches.take();
        let watched = watches.iter().map(|watch| &watch.socket);
        // In a turn, as this thread will not serve what it would be asked for now.
        let lost = self.shared.completions.turn(&self.runtime, || {
            incoming
                .iter()
                .flatten()
                .chain(watched)
                .for_each(|socket| socket.close());
        });
        drop(lost);
        for watch in watches {
            self.forget(watch);
        }
        self.on_end.set(Some(hook));
        self.end_if_all_are_closed();
    }

    fn end_if_all_are_closed(&self) {
        if self.handles.get() == 0
            && let Some(hook) = self.on_end.take()
        {
            remove_hook(hook);
        }
    }

    /// Calls JavaScript from libuv's callback. All that follows from it, promises included, has run
    /// when this returns.
    fn deliver(&self, ready: Vec<(u64, Reply)>) {
        let mut ready = ready.into_iter().peekable();
        while ready.peek().is_some() {
            let mut scope = ptr::null_mut();
            // SAFETY: this is the environment's thread, outside any call of JavaScript, and the
            // environment lives: its end removes the watches.
            unsafe {
                if sys::napi_open_handle_scope(self.env, &raw mut scope) != sys::Status::napi_ok {
                    return;
                }
                if self.call(ready.by_ref().take(AT_ONCE)) == sys::Status::napi_pending_exception {
                    let mut thrown = ptr::null_mut();
                    sys::napi_get_and_clear_last_exception(self.env, &raw mut thrown);
                    sys::napi_fatal_exception(self.env, thrown);
                }
                sys::napi_close_handle_scope(self.env, scope);
            }
        }
    }

    /// # Safety
    /// As in `deliver`, with a handle scope open.
    unsafe fn call(&self, ready: impl Iterator<Item = (u64, Reply)>) -> sys::napi_status {
        let env = self.env;
        let mut arguments = Vec::with_capacity(2 * AT_ONCE);
        let (mut function, mut global) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: by the caller; failures leave null, which the calls refuse.
        unsafe {
            for (id, reply) in ready {
                let values = (
                    f64::to_napi_value(env, id as f64),
                    String::to_napi_value(env, reply.deliver()),
                );
                let (Ok(id), Ok(reply)) = values else {
                    return sys::Status::napi_generic_failure;
                };
                arguments.extend([id, reply]);
            }
            sys::napi_get_reference_value(env, self.on_replies, &raw mut function);
            sys::napi_get_global(env, &raw mut global);
            sys::napi_make_callback(
                env,
                ptr::null_mut(),
                global,
                function,
                arguments.len(),
                arguments.as_ptr(),
                ptr::null_mut(),
            )
        }
    }
}

impl NodeLoop {
    fn incoming(&self) -> MutexGuard<'_, Option<Vec<Arc<dyn Watched>>>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventLoop for NodeLoop {
    fn is_here(&self) -> bool {
        thread::current().id() == self.thread
    }

    fn is_gathering(&self) -> bool {
        self.gathering.load(Ordering::Relaxed)
    }

    fn watch(&self, socket: Arc<dyn Watched>) {
        match &mut *self.incoming() {
            Some(incoming) => incoming.push(socket),
            None => return socket.close(),
        }
        self.completions.wake();
    }

    fn nudge(&self) {
        if !self.nudged.swap(true, Ordering::AcqRel) {
            self.completions.wake();
        }
    }
}
