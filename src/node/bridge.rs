//! The way back into JavaScript: one queue and one wake-up for everything that is ready.

use std::cell::Cell;
use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napi::Env;
use napi::bindgen_prelude::{Either, FnArgs, Function, JsValue};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use tokio::runtime::Handle;

use super::event_loop;
use super::reply::{self, Reply};
use crate::client::{Hold, parked};
use crate::error::Error;
use crate::event_loop::EventLoop;

/// JavaScript sees `[id, reply, id, reply, …]`.
#[napi]
pub type Batch = Vec<Either<f64, String>>;
type Wake = ThreadsafeFunction<(), (), FnArgs<(Batch,)>, napi::Status, false, true>;

/// The id of a warning: no operation has it.
const WARNING: u64 = 0;

/// One for each JavaScript context (the main thread, a worker).
#[napi]
pub struct Bridge {
    pub(super) completions: Arc<Completions>,
    pub(super) event_loop: Option<Arc<dyn EventLoop>>,
}

#[napi]
impl Bridge {
    /// `on_replies` takes a batch as its arguments. It is only given in Node.js: other runtimes may
    /// export libuv's functions, and end the process when one is called.
    #[napi(constructor)]
    pub fn new(
        env: Env,
        on_batch: Function<FnArgs<(Batch,)>, ()>,
        on_replies: Option<Function<(), ()>>,
    ) -> napi::Result<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let queue = Arc::new(Queue::default());
        let ready = Arc::clone(&queue);
        // Weak: an idle backend does not keep the process alive.
        let wake = on_batch
            .build_threadsafe_function::<()>()
            .weak::<true>()
            .build_callback(move |_| {
                let ready = event_loop::serve(id).unwrap_or_else(|| ready.take());
                Ok(FnArgs::from((batch(ready),)))
            })?;
        let completions = Arc::new(Completions {
            queue,
            wake,
            next_id: AtomicU64::new(WARNING + 1),
            running: Mutex::default(),
        });
        let event_loop = on_replies.and_then(|on_replies| {
            event_loop::attach(id, env, on_replies.raw(), Arc::clone(&completions))
        });
        Ok(Self {
            completions,
            event_loop,
        })
    }
}

#[derive(Default)]
struct Queue(Mutex<Vec<(u64, Reply)>>);

impl Queue {
    /// Whether this is the first since the last `take`: only then is a wake-up due.
    fn push(&self, id: u64, reply: Reply) -> bool {
        let mut ready = lock(&self.0);
        ready.push((id, reply));
        ready.len() == 1
    }

    fn take(&self) -> Vec<(u64, Reply)> {
        std::mem::take(&mut *lock(&self.0))
    }
}

/// As JavaScript gets it, now.
fn batch(ready: Vec<(u64, Reply)>) -> Batch {
    ready
        .into_iter()
        .flat_map(|(id, reply)| [Either::A(id as f64), Either::B(reply.deliver())])
        .collect()
}

thread_local! {
    /// Those whose replies this thread will take by itself.
    static IN_TURN: Cell<*const Completions> = const { Cell::new(ptr::null()) };
}

pub struct Completions {
    queue: Arc<Queue>,
    wake: Wake,
    next_id: AtomicU64,
    /// What JavaScript may still stop, by its id.
    running: Mutex<HashMap<u64, Hold>>,
}

impl Completions {
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub fn post(&self, id: u64, reply: Reply) {
        if self.queue.push(id, reply) && !ptr::eq(IN_TURN.get(), self) {
            self.wake();
        }
    }

    /// Makes the JavaScript thread come for what is ready.
    pub fn wake(&self) {
        // Fails only when the context is being torn down: then nobody waits any more.
        self.wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
    }

    /// Runs `work` on the JavaScript thread, and the operations that it woke. Returns all replies
    /// that are ready.
    pub fn turn(&self, runtime: &Handle, work: impl FnOnce()) -> Vec<(u64, Reply)> {
        IN_TURN.set(self);
        let _end = EndOfTurn;
        parked::turn(runtime, work);
        self.queue.take()
    }

    pub fn warn(&self, text: &str) {
        self.post(WARNING, text.to_owned().into());
    }

    pub fn running(&self) -> MutexGuard<'_, HashMap<u64, Hold>> {
        lock(&self.running)
    }

    /// What owes the reply to `id`.
    pub fn pending(self: &Arc<Self>, id: u64) -> Pending {
        Pending {
            completions: Arc::clone(self),
            id,
            settled: false,
        }
    }
}

/// Comes also by a panic.
struct EndOfTurn;

impl Drop for EndOfTurn {
    fn drop(&mut self) {
        IN_TURN.set(ptr::null());
    }
}

/// Posts the reply to an operation; an error when its task dies without one, so that no promise
/// is left pending.
pub struct Pending {
    completions: Arc<Completions>,
    id: u64,
    settled: bool,
}

impl Pending {
    /// Answers the caller; `finish` must still follow.
    pub fn interim(&mut self, reply: Reply) {
        self.completions.post(self.id, reply.interim());
    }

    pub fn finish(mut self, reply: Reply) {
        self.settled = true;
        self.completions.post(self.id, reply);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.completions.running().remove(&self.id);
        if !self.settled {
            self.completions.post(
                self.id,
                reply::error(&Error::internal("The operation failed unexpectedly")).into(),
            );
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
