//! The way back into JavaScript: one queue and one wake-up for everything that is ready.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use napi::Env;
use napi::bindgen_prelude::{Either, FnArgs, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::event_loop;
use super::host::JavascriptHost;
use super::panics::contain;
use super::questions::Questions;
use super::queue::Queue;
use super::reply::Reply;
use super::runtime::runtime;
use crate::client::parked;
use crate::error::Error;
use crate::event_loop::EventLoop;

/// JavaScript sees `[id, reply, id, reply, …]`.
#[napi]
pub type Batch = Vec<Either<f64, String>>;
type Wake = ThreadsafeFunction<(), (), FnArgs<(Batch,)>, napi::Status, false, true>;

/// The id of what is no reply: no operation has it. A letter says what it is.
const MESSAGE: u64 = 0;

/// One for each JavaScript context (the main thread, a worker).
#[napi]
pub struct Bridge {
    pub(super) completions: Arc<Completions>,
    pub(super) event_loop: Option<Arc<dyn EventLoop>>,
    pub(super) questions: Arc<Questions>,
    pub(super) host: Arc<JavascriptHost>,
    runtime: Handle,
}

#[napi]
impl Bridge {
    /// `on_replies` takes a batch as its arguments.
    #[napi(constructor)]
    pub fn new(
        env: Env,
        on_batch: Function<FnArgs<(Batch,)>, ()>,
        on_replies: Function<(), ()>,
    ) -> napi::Result<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let runtime = runtime()
            .map_err(|error| napi::Error::from_reason(error.message))?
            .handle()
            .clone();
        let queue = Arc::new(Queue::default());
        let ready = Arc::clone(&queue);
        // Weak: an idle backend does not keep the process alive.
        let wake = on_batch
            .build_threadsafe_function::<()>()
            .weak::<true>()
            .build_callback(move |_| {
                // A panic must not unwind into Node. What it kept from being taken is in the queue.
                let batch =
                    contain(|| batch(event_loop::serve(id).unwrap_or_else(|| ready.take())));
                Ok(FnArgs::from((batch.unwrap_or_default(),)))
            })?;
        let completions = Arc::new(Completions {
            queue,
            wake,
            next_id: AtomicU64::new(MESSAGE + 1),
        });
        let event_loop = event_loop::attach(id, env, &on_replies, Arc::clone(&completions));
        Ok(Self {
            event_loop,
            questions: Arc::new(Questions::new(Arc::clone(&completions))),
            host: JavascriptHost::new(Arc::clone(&completions), runtime.clone()),
            completions,
            runtime,
        })
    }

    /// What is ready, for who does not want to wait until it is brought.
    #[napi]
    pub fn take(&self) -> Batch {
        batch(self.completions.queue.take())
    }

    /// What JavaScript's clocks show: Unix time, and one that never goes back.
    #[napi]
    pub fn set_time(&self, unix_ms: f64, steady_ms: f64) {
        self.host.set_time(unix_ms, steady_ms);
    }

    /// The answer to a question; `take` then has what came of it.
    #[napi]
    pub fn answer(&self, question: f64, ok: bool, json: String) {
        self.turn(|| self.questions.answer(question as u64, ok, &json));
    }

    /// A timer of the host has run out; `take` then has what came of it.
    #[napi]
    pub fn fire(&self, timer: f64) {
        self.turn(|| self.host.fire(timer as u64));
    }

    fn turn(&self, work: impl FnOnce()) {
        // A panic must not unwind into Node.
        contain(|| self.completions.in_turn(&self.runtime, work));
    }
}

/// The context has ended: nobody will answer, and no timer will run out.
impl Drop for Bridge {
    fn drop(&mut self) {
        self.questions.end();
        self.host.end();
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

pub(super) struct Completions {
    queue: Arc<Queue>,
    wake: Wake,
    next_id: AtomicU64,
}

impl Completions {
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub fn post(&self, id: u64, reply: Reply) {
        self.wake_after(self.queue.push(id, reply));
    }

    /// `first`: of what is ready, and so nobody was woken for it yet.
    fn wake_after(&self, first: bool) {
        if first && !ptr::eq(IN_TURN.get(), self) {
            self.wake();
        }
    }

    /// See `js/native/bridge.js` for what there is.
    pub fn message(&self, kind: char, text: &str) {
        self.post(MESSAGE, format!("{kind}{text}").into());
    }

    /// Makes the JavaScript thread come for what is ready.
    pub fn wake(&self) {
        // Fails only when the context is being torn down: then nobody waits any more.
        self.wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
    }

    /// See [`Queue::take_single`].
    pub fn take_single(&self) -> Option<(u64, Reply)> {
        self.queue.take_single()
    }

    pub fn wake_if_ready(&self) {
        if !self.queue.is_empty() {
            self.wake();
        }
    }

    /// Runs `work` on the JavaScript thread, and the operations that it woke. Returns all replies
    /// that are ready.
    #[cfg(unix)]
    pub fn turn(&self, runtime: &Handle, work: impl FnOnce()) -> Vec<(u64, Reply)> {
        self.in_turn(runtime, work);
        self.queue.take()
    }

    /// The same; whoever calls sees to it that the replies are taken.
    pub fn in_turn<T>(&self, runtime: &Handle, work: impl FnOnce() -> T) -> T {
        IN_TURN.set(self);
        let _end = EndOfTurn;
        parked::turn(runtime, work)
    }

    pub fn warn(&self, text: &str) {
        self.message('W', text);
    }

    pub fn start(&self, id: u64, cancel: CancellationToken) {
        self.queue.start(id, cancel);
    }

    /// Nobody wants the reply to `id` any more.
    pub fn cancel(&self, id: u64) {
        self.queue.cancel(id);
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
pub(super) struct Pending {
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
        let first = self.completions.queue.finish(self.id, reply);
        self.completions.wake_after(first);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.settled {
            self.completions.queue.forget(self.id);
            let error = Error::internal("The operation failed unexpectedly");
            self.completions.post(self.id, error.into());
        }
    }
}
