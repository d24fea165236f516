//! Node's event loop as the core sees it: it watches sockets, and what they bring goes to
//! JavaScript from the same callback.

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

use super::outbox::Outbox;
use super::panics::catch_panic;
use super::recipient::{CalledFrom, Recipient};
use super::runtime::runtime;
use super::uv::{self, Poll};
use crate::net::event_loop::{Event, EventLoop, Interest, Watched};

/// The part that any thread may use.
struct NodeLoop {
    thread: ThreadId,
    outbox: Arc<Outbox>,
    gathering: AtomicBool,
    nudged: AtomicBool,
    /// Sockets that are to be watched. None if the loop has ended.
    incoming: Mutex<Option<Vec<Arc<dyn Watched>>>>,
}

/// The part that stays on the loop's thread. Every handle of libuv keeps it, so that it goes with
/// the last of them.
struct Local {
    shared: Arc<NodeLoop>,
    runtime: Handle,
    uv_loop: uv::Loop,
    recipient: Rc<Recipient>,
    watches: RefCell<BTreeMap<u64, Watch>>,
    next_watch: Cell<u64>,
    /// The last field, as fields are dropped in their order: with this, the environment may end.
    _hook: CleanupHook,
}

struct Watch {
    socket: Arc<dyn Watched>,
    poll: Poll,
}

thread_local! {
    /// By the id of their bridge: a thread may have several. Taken out by `detach`. What is left
    /// when the process exits without that must not be dropped: its environment may be gone.
    static LOOPS: RefCell<ManuallyDrop<BTreeMap<u64, Rc<Local>>>> =
        const { RefCell::new(ManuallyDrop::new(BTreeMap::new())) };
}

/// Returns the event loop of this thread, for the bridge with this id. None if it cannot be used.
pub fn attach(
    id: u64,
    env: Env,
    recipient: &Rc<Recipient>,
    outbox: Arc<Outbox>,
) -> Option<Arc<dyn EventLoop>> {
    if !uv::is_available() {
        return None;
    }
    let shared = Arc::new(NodeLoop {
        thread: thread::current().id(),
        outbox,
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

/// Closes all handles of the bridge with this id: it is not used any more, or its environment is about
/// to end, and libuv must let go of the handles before that.
pub fn detach(id: u64) {
    if let Some(local) = LOOPS.with_borrow_mut(|loops| loops.remove(&id)) {
        local.end();
    }
}

/// Does what other threads have asked this loop for.
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
            // SAFETY: the loop is the one of this thread's environment, which does not end before
            // `_hook` is dropped: not before the last `on_event`, by the `Local` in it.
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
            // Alone, a caller's next request is written when it is made.
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
            // Replies may be ready that nobody was told of.
            self.shared.outbox.wake();
        }
    }

    fn replies_ready(&self) -> usize {
        self.shared.outbox.queue.len()
    }

    /// Not those that come meanwhile, as others want their turn.
    fn deliver(&self, ready: usize) {
        let outbox = &self.shared.outbox;
        self.recipient.deliver(outbox, ready, CalledFrom::EventLoop);
        // A reply of another thread that came after the count and before the delivery woke nobody,
        // because those before it were about to be taken.
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

    /// Whether the socket is still watched. Not after a panic: it may have left things undone.
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
        // In a turn, as this thread will not serve what it would be asked for now.
        self.turn(|| {
            for socket in incoming.iter().chain(watched) {
                catch_panic(|| socket.close());
            }
        });
        self.shared.outbox.end();
    }
}

/// Has [`detach`] called when the environment is about to end, which then waits until this is dropped.
struct CleanupHook(sys::napi_async_cleanup_hook_handle);

impl CleanupHook {
    fn new(env: Env, id: u64) -> Option<Self> {
        let mut handle = ptr::null_mut();
        // Not a pointer: nothing has to be freed if the hook is removed before it is called.
        let id = ptr::without_provenance_mut(usize::try_from(id).ok()?);
        // SAFETY: the environment lives, as it calls us.
        let status = unsafe {
            sys::napi_add_async_cleanup_hook(env.raw(), Some(on_end), id, &raw mut handle)
        };
        (status == sys::Status::napi_ok).then_some(Self(handle))
    }
}

impl Drop for CleanupHook {
    fn drop(&mut self) {
        // SAFETY: it is removed only here, on the thread of its environment, whether it was called or
        // not: until then the environment waits.
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
