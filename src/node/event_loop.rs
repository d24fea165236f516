//! Node's event loop as a reactor. It watches sockets, and replies that follow from what they receive are
//! delivered to JavaScript in the same callback.

use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::mem::{self, ManuallyDrop};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};

use napi::{Env, sys};
use tokio::runtime::Handle;

use super::bridge::{CalledFrom, Recipient};
use super::outbox::Outbox;
use super::panics::catch_panic;
use super::runtime::runtime;
use super::uv::{self, Poll};
use crate::net::event_loop::{Event, EventLoop, Interest, Watched};

/// The part of an event loop that any thread may use.
struct NodeLoop {
    thread: ThreadId,
    outbox: Arc<Outbox>,
    gathering: AtomicBool,
    nudged: AtomicBool,
    /// Sockets that the loop has yet to watch. None if the loop has ended.
    incoming: Mutex<Option<Vec<Arc<dyn Watched>>>>,
}

/// The part of an event loop that stays on its thread. Every handle of libuv keeps a reference to it, so it
/// is dropped with the last handle.
struct Local {
    shared: Arc<NodeLoop>,
    runtime: Handle,
    uv_loop: uv::Loop,
    recipient: Rc<Recipient>,
    watches: RefCell<BTreeMap<u64, Watch>>,
    next_watch: Cell<u64>,
    /// The last field, because fields are dropped in order: once this is dropped, the environment may end.
    _hook: CleanupHook,
}

struct Watch {
    socket: Arc<dyn Watched>,
    poll: Poll,
}

thread_local! {
    /// The loops by the id of their bridge, because a thread may have several. `detach` removes them. Loops that
    /// are left when the process exits must not be dropped, because their environment may be gone.
    static LOOPS: RefCell<ManuallyDrop<BTreeMap<u64, Rc<Local>>>> =
        const { RefCell::new(ManuallyDrop::new(BTreeMap::new())) };
}

/// Returns the event loop of this thread, for the bridge with this id. None if it cannot be used.
pub fn attach(id: u64, env: Env, recipient: &Rc<Recipient>) -> Option<Arc<dyn EventLoop>> {
    if !uv::is_available() {
        return None;
    }
    let shared = Arc::new(NodeLoop {
        thread: thread::current().id(),
        outbox: Arc::clone(&recipient.outbox),
        gathering: AtomicBool::new(false),
        nudged: AtomicBool::new(false),
        incoming: Mutex::new(Some(Vec::new())),
    });
    let local = Rc::new(Local {
        shared: Arc::clone(&shared),
        runtime: runtime().ok()?.handle().clone(),
        uv_loop: env.get_uv_event_loop().ok()?.cast(),
        recipient: Rc::clone(recipient),
        watches: RefCell::default(),
        next_watch: Cell::new(0),
        _hook: CleanupHook::new(env, id)?,
    });
    LOOPS.with_borrow_mut(|loops| loops.insert(id, local));
    Some(shared)
}

/// Closes all handles of the bridge with this id. The bridge is not used any more, or its environment is about
/// to end, and libuv must close the handles before that.
pub fn detach(id: u64) {
    if let Some(local) = LOOPS.with_borrow_mut(|loops| loops.remove(&id)) {
        local.end();
    }
}

/// Serves the sockets that other threads have added or nudged.
pub fn serve(id: u64) {
    if let Some(local) = LOOPS.with_borrow(|loops| loops.get(&id).cloned()) {
        local.serve();
    }
}

impl Local {
    fn serve(self: &Rc<Self>) {
        self.turn(|| {
            let incoming = self.shared.incoming.lock().as_mut().map(mem::take);
            for socket in incoming.into_iter().flatten() {
                self.watch(socket);
            }
            if self.shared.nudged.swap(false, Ordering::AcqRel) {
                self.serve_all(Event::Ready);
            }
        });
    }

    fn turn(&self, work: impl FnOnce()) {
        self.shared.outbox.in_turn(&self.runtime, work);
    }

    fn watch(self: &Rc<Self>, socket: Arc<dyn Watched>) {
        let id = self.next_watch.replace(self.next_watch.get() + 1);
        let local = Rc::clone(self);
        let on_event = move |event| local.on_event(id, event);
        let poll = socket.socket().and_then(|stream| {
            // SAFETY: the loop is that of this thread's environment, which does not end before `_hook` is
            // dropped. The `Local` in each `on_event` keeps the hook until the last of them is dropped.
            unsafe { Poll::new(self.uv_loop, stream, on_event) }
        });
        match poll {
            None => socket.close(),
            Some(poll) => {
                let mut watches = self.watches.borrow_mut();
                watches.insert(id, Watch { socket, poll });
            }
        }
    }

    fn on_event(&self, id: u64, event: Event) {
        let served = catch_panic(|| {
            self.turn(|| self.serve_socket(id, event));
            let ready = self.replies_ready();
            // If only one caller is answered, its next request need not wait for others.
            let gathering = ready > 1;
            self.shared.gathering.store(gathering, Ordering::Relaxed);
            self.deliver(ready);
            self.shared.gathering.store(false, Ordering::Relaxed);
            if gathering {
                self.turn(|| self.serve_all(Event::Gathered));
                self.deliver(self.replies_ready());
            }
        });
        if served.is_none() {
            self.shared.gathering.store(false, Ordering::Relaxed);
            // JavaScript may not have been notified of all replies that are ready.
            self.shared.outbox.wake();
        }
    }

    fn replies_ready(&self) -> usize {
        self.shared.outbox.queue.len()
    }

    /// Delivers the first `ready` replies. Replies that arrive in the meantime have to wait, so that other
    /// callbacks of the event loop get their turn.
    fn deliver(&self, ready: usize) {
        let outbox = &self.shared.outbox;
        self.recipient.deliver(ready, CalledFrom::EventLoop);
        // A reply that another thread added between the count and the delivery caused no wake-up, because
        // the replies before it were about to be taken.
        if outbox.queue.has_unannounced() {
            outbox.wake();
        }
    }

    fn serve_all(&self, event: Event) {
        let ids: Vec<u64> = self.watches.borrow().keys().copied().collect();
        for id in ids {
            self.serve_socket(id, event);
        }
    }

    fn serve_socket(&self, id: u64, event: Event) {
        let watches = self.watches.borrow();
        let Some(socket) = watches.get(&id).map(|watch| Arc::clone(&watch.socket)) else {
            return;
        };
        drop(watches);
        let interest = catch_panic(|| socket.turn(event));
        let is_watched = event != Event::Broken && self.listen(id, interest);
        if !is_watched {
            let watch = self.watches.borrow_mut().remove(&id);
            drop(watch);
            if interest != Some(Interest::Nothing) {
                catch_panic(|| socket.close());
            }
        }
    }

    /// Returns whether the socket is still watched. After a panic it is not, because its state may be
    /// inconsistent.
    fn listen(&self, id: u64, interest: Option<Interest>) -> bool {
        let writable = match interest {
            Some(Interest::Read) => false,
            Some(Interest::ReadAndWrite) => true,
            Some(Interest::Nothing) | None => return false,
        };
        let watches = self.watches.borrow();
        watches
            .get(&id)
            .is_some_and(|watch| watch.poll.listen(writable))
    }

    fn end(&self) {
        let incoming = self.shared.incoming.lock().take().unwrap_or_default();
        // Dropping them closes their handles.
        let watches = self.watches.take();
        let watched = watches.values().map(|watch| &watch.socket);
        // In a turn, because this thread no longer serves wake-ups.
        self.turn(|| {
            for socket in incoming.iter().chain(watched) {
                catch_panic(|| socket.close());
            }
        });
        self.shared.outbox.end();
    }
}

/// Calls [`detach`] when the environment is about to end. The environment then waits until this is dropped.
struct CleanupHook(sys::napi_async_cleanup_hook_handle);

impl CleanupHook {
    fn new(env: Env, id: u64) -> Option<Self> {
        let mut handle = ptr::null_mut();
        // This is a number and not a pointer, so that nothing has to be freed if the hook is never called.
        let id = ptr::without_provenance_mut(usize::try_from(id).ok()?);
        // SAFETY: the environment is alive, because it calls us.
        let status = unsafe {
            sys::napi_add_async_cleanup_hook(env.raw(), Some(on_end), id, &raw mut handle)
        };
        (status == sys::Status::napi_ok).then_some(Self(handle))
    }
}

impl Drop for CleanupHook {
    fn drop(&mut self) {
        // SAFETY: the hook is removed only here, on the thread of its environment, which waits for this.
        unsafe { sys::napi_remove_async_cleanup_hook(self.0) };
    }
}

unsafe extern "C" fn on_end(_hook: sys::napi_async_cleanup_hook_handle, id: *mut c_void) {
    catch_panic(|| detach(id.addr() as u64));
}

impl EventLoop for NodeLoop {
    fn is_here(&self) -> bool {
        thread::current().id() == self.thread
    }

    fn is_gathering(&self) -> bool {
        self.gathering.load(Ordering::Relaxed)
    }

    fn watch(&self, socket: Arc<dyn Watched>) {
        let refused = match self.incoming.lock().as_mut() {
            Some(incoming) => {
                incoming.push(socket);
                None
            }
            None => Some(socket),
        };
        match refused {
            Some(socket) => socket.close(),
            None => self.outbox.wake(),
        }
    }

    fn nudge(&self) {
        if !self.nudged.swap(true, Ordering::AcqRel) {
            self.outbox.wake();
        }
    }
}
