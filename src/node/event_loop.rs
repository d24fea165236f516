//! Node's event loop as the core sees it: it watches sockets, and what they bring goes to
//! JavaScript from the same callback.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::mem::{self, ManuallyDrop};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use napi::bindgen_prelude::{Function, JsValue};
use napi::{Env, sys};
use tokio::runtime::Handle;

use super::bridge::Completions;
use super::panics::contain;
use super::reply::Reply;
use super::runtime::runtime;
use super::uv::{self, Poll};
use crate::event_loop::{Event, EventLoop, Interest, Watched};
use javascript::{Ending, Recipient};

mod javascript;

/// The part that any thread may use.
struct NodeLoop {
    thread: ThreadId,
    completions: Arc<Completions>,
    gathering: AtomicBool,
    nudged: AtomicBool,
    /// Sockets that are to be watched; nothing when the loop has ended.
    incoming: Mutex<Option<Vec<Arc<dyn Watched>>>>,
}

/// The part that stays on the loop's thread. Every handle of libuv keeps it, so that it goes with
/// the last of them.
struct Local {
    shared: Arc<NodeLoop>,
    runtime: Handle,
    uv_loop: uv::Loop,
    recipient: Recipient,
    /// Replies that JavaScript did not take yet.
    undelivered: RefCell<Vec<(u64, Reply)>>,
    watches: RefCell<BTreeMap<u64, Watch>>,
    next_watch: Cell<u64>,
    /// The last field, as fields are dropped in their order: with this, the environment may end.
    ending: OnceCell<Ending>,
}

struct Watch {
    socket: Arc<dyn Watched>,
    poll: Poll,
}

thread_local! {
    /// By the id of their bridge: a thread may have several. Taken out by `on_end`. What is left
    /// when the process exits without that must not be dropped: its environment may be gone.
    static LOOPS: RefCell<ManuallyDrop<BTreeMap<u64, Rc<Local>>>> =
        const { RefCell::new(ManuallyDrop::new(BTreeMap::new())) };
}

/// The event loop of this thread, for the bridge with this id; nothing when it cannot be used.
pub fn attach(
    id: u64,
    env: Env,
    on_replies: &Function<(), ()>,
    completions: Arc<Completions>,
) -> Option<Arc<dyn EventLoop>> {
    if !uv::is_available() {
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
        uv_loop: env.get_uv_event_loop().ok()?.cast(),
        // SAFETY: JavaScript calls us with it. It stays on this thread with `Local`, which drops it
        // before `ending`, for which the environment waits.
        recipient: unsafe { Recipient::new(env, on_replies.raw()) }?,
        undelivered: RefCell::default(),
        watches: RefCell::default(),
        next_watch: Cell::new(0),
        ending: OnceCell::new(),
    });
    let end = Box::into_raw(Box::new(id));
    // SAFETY: the environment lives, as it calls us. It calls the hook once, which takes the box.
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

/// Does what other threads asked for, and returns what is ready for JavaScript; nothing when the
/// loop is not used, or failed.
pub fn serve(id: u64) -> Option<Vec<(u64, Reply)>> {
    contain(|| {
        let local = LOOPS.with_borrow(|loops| loops.get(&id).cloned())?;
        Some(local.serve())
    })?
}

/// The environment is about to end: libuv must let go of all handles before its loop does.
unsafe extern "C" fn on_end(hook: sys::napi_async_cleanup_hook_handle, id: *mut c_void) {
    contain(|| {
        // SAFETY: the environment calls this with its hook and with the box of `attach`, once.
        let (ending, id) = unsafe { (Ending::new(hook), Box::from_raw(id.cast::<u64>())) };
        if let Some(local) = LOOPS.with_borrow_mut(|loops| loops.remove(&*id)) {
            local.end(ending);
        }
    });
}

impl Local {
    fn serve(self: &Rc<Self>) -> Vec<(u64, Reply)> {
        self.replies_after(|| {
            let incoming = self.shared.incoming().as_mut().map(mem::take);
            for socket in incoming.into_iter().flatten() {
                self.watch(socket);
            }
            if self.shared.nudged.swap(false, Ordering::AcqRel) {
                self.serve_all(Event::Ready);
            }
        })
    }

    /// Runs `work`, and returns the replies that are ready then.
    fn replies_after(&self, work: impl FnOnce()) -> Vec<(u64, Reply)> {
        let ready = self.shared.completions.turn(&self.runtime, work);
        let mut first = self.undelivered.take();
        if first.is_empty() {
            return ready;
        }
        first.extend(ready);
        first
    }

    fn watch(self: &Rc<Self>, socket: Arc<dyn Watched>) {
        let id = self.next_watch.replace(self.next_watch.get() + 1);
        let local = Rc::clone(self);
        let on_event = move |event| local.on_event(id, event);
        // SAFETY: the loop is the one of this thread's environment, which does not end before
        // `ending` is dropped: not before the last `on_event`, by the `Local` in it.
        let poll = unsafe { Poll::new(self.uv_loop, socket.socket(), on_event) };
        match poll {
            None => socket.close(),
            Some(poll) => {
                let mut watches = self.watches.borrow_mut();
                watches.insert(id, Watch { socket, poll });
            }
        }
    }

    fn on_event(&self, id: u64, event: Event) {
        let served = contain(|| {
            let ready = self.replies_after(|| self.serve_socket(id, event));
            // Alone, a caller's next request is written when it is made.
            let gathering = ready.len() > 1;
            self.shared.gathering.store(gathering, Ordering::Relaxed);
            self.deliver(ready);
            self.shared.gathering.store(false, Ordering::Relaxed);
            if gathering {
                self.deliver(self.replies_after(|| self.serve_all(Event::Gathered)));
            }
        });
        if served.is_none() {
            self.shared.gathering.store(false, Ordering::Relaxed);
            // Replies may be ready that nobody was told of.
            self.shared.completions.wake();
        }
    }

    fn deliver(&self, ready: Vec<(u64, Reply)>) {
        if ready.is_empty() {
            return;
        }
        let undelivered = self.recipient.deliver(ready);
        if !undelivered.is_empty() {
            self.undelivered.borrow_mut().extend(undelivered);
            // They go the way that replies of other threads take.
            self.shared.completions.wake();
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
        let interest = contain(|| socket.turn(event));
        let is_watched = event != Event::Broken && self.listen(id, interest);
        if !is_watched {
            let watch = self.watches.borrow_mut().remove(&id);
            drop(watch);
            if interest != Some(Interest::Nothing) {
                contain(|| socket.close());
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

    fn end(&self, ending: Ending) {
        let _ = self.ending.set(ending);
        let incoming = self.shared.incoming().take().unwrap_or_default();
        // Dropping them closes their handles.
        let watches = self.watches.take();
        let watched = watches.values().map(|watch| &watch.socket);
        // In a turn, as this thread will not serve what it would be asked for now.
        let lost = self.replies_after(|| {
            for socket in incoming.iter().chain(watched) {
                contain(|| socket.close());
            }
        });
        drop(lost);
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
        let refused = match self.incoming().as_mut() {
            Some(incoming) => {
                incoming.push(socket);
                None
            }
            None => Some(socket),
        };
        match refused {
            Some(socket) => socket.close(),
            None => self.completions.wake(),
        }
    }

    fn nudge(&self) {
        if !self.nudged.swap(true, Ordering::AcqRel) {
            self.completions.wake();
        }
    }
}
