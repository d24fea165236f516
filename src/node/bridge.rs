//! The way back into JavaScript: one queue and one wake-up for all replies that are ready.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use napi::Env;
use napi::bindgen_prelude::{Either, Function, JsValue, Unknown};
use napi_derive::napi;
use tokio::runtime::Handle;

use super::environment::Environment;
#[cfg(unix)]
use super::event_loop;
use super::host::JavascriptHost;
use super::outbox::{Outbox, ROOM, SharedMemory};
use super::panics::catch_panic;
use super::questions::Questions;
use super::recipient::{CalledFrom, Recipient};
use super::runtime::runtime;
use crate::net::event_loop::EventLoop;

/// JavaScript sees `[id, reply, id, reply, …]`.
#[napi]
pub type Batch = Vec<Either<f64, String>>;

/// One bridge for each JavaScript context: the main thread, a worker.
#[napi]
pub struct Bridge {
    id: u64,
    pub(super) outbox: Arc<Outbox>,
    pub(super) event_loop: Option<Arc<dyn EventLoop>>,
    pub(super) questions: Arc<Questions>,
    pub(super) host: Arc<JavascriptHost>,
    pub(super) environment: Arc<Environment>,
    runtime: Handle,
    receipts: SharedMemory,
}

#[napi]
impl Bridge {
    /// `on_replies` takes a batch as its arguments. JavaScript keeps the function: see [`Recipient`].
    #[napi(
        constructor,
        ts_args_type = "onReplies: (...batch: Array<number | string>) => void"
    )]
    pub fn new(env: Env, on_replies: Function<(), ()>) -> napi::Result<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let runtime = runtime()
            .map_err(|error| napi::Error::from_reason(error.message))?
            .handle()
            .clone();
        let (receipts, cells) = SharedMemory::new(env)?;
        let environment = Environment::current(env)?;
        let outbox = Arc::new(Outbox::new(id, cells, {
            let environment = Arc::clone(&environment);
            move || environment.wake(id)
        }));
        // SAFETY: JavaScript calls us with it. It stays on this thread until this object is dropped, or
        // the event loop lets go of it: both before the environment ends.
        let recipient = unsafe { Recipient::new(env, on_replies.raw(), Arc::clone(&outbox)) };
        let recipient = Rc::new(recipient.ok_or_else(|| {
            napi::Error::from_reason("The function that receives replies cannot be referred to")
        })?);
        #[cfg(unix)]
        let event_loop = event_loop::attach(id, env, &recipient);
        #[cfg(not(unix))]
        let event_loop = None;
        RECIPIENTS.with_borrow_mut(|recipients| recipients.insert(id, recipient));
        Ok(Self {
            id,
            event_loop,
            questions: Arc::new(Questions::new(Arc::clone(&outbox))),
            host: JavascriptHost::new(Arc::clone(&outbox), runtime.clone()),
            environment,
            outbox,
            runtime,
            receipts,
        })
    }

    /// Returns the memory in which JavaScript confirms that it received a lock.
    #[napi(ts_return_type = "ArrayBuffer")]
    pub fn receipts<'env>(&self) -> napi::Result<Unknown<'env>> {
        self.receipts.value()
    }

    /// Takes the replies that are ready, instead of waiting until they are brought.
    #[napi]
    pub fn take(&self) -> Batch {
        let outbox = &self.outbox;
        outbox.read_receipts();
        let ready = outbox.queue.take(usize::MAX).into_iter();
        ready
            .flat_map(|(id, reply)| [Either::A(id as f64), Either::B(outbox.hand_over(id, reply))])
            .collect()
    }

    /// Sets what JavaScript's clocks show: Unix time, and a time that never goes back.
    #[napi]
    pub fn set_time(&self, unix_ms: f64, steady_ms: f64) {
        self.host.set_time(unix_ms, steady_ms);
    }

    /// Answers a question. `take` then returns the replies that follow from it.
    #[napi]
    pub fn answer(&self, question: f64, ok: bool, json: String) {
        self.turn(|| self.questions.answer(question as u64, ok, &json));
    }

    /// Reports that a timer of the host has run out. `take` then returns the replies that follow from it.
    #[napi]
    pub fn fire(&self, timer: f64) {
        self.turn(|| self.host.fire(timer as u64));
    }

    fn turn(&self, work: impl FnOnce()) {
        // A panic must not unwind into Node.
        catch_panic(|| self.outbox.in_turn(&self.runtime, work));
    }
}

/// Dropped when the context has ended: nobody answers questions, no timer runs out, no reply is taken.
impl Drop for Bridge {
    fn drop(&mut self) {
        self.questions.end();
        self.host.end();
        #[cfg(unix)]
        event_loop::detach(self.id);
        let recipient = RECIPIENTS.with_borrow_mut(|recipients| recipients.remove(&self.id));
        drop(recipient);
        self.outbox.end();
    }
}

thread_local! {
    /// By the id of their bridge, which removes its own. If the process exits without that, the rest must
    /// not be dropped: its environment may be gone.
    static RECIPIENTS: RefCell<ManuallyDrop<BTreeMap<u64, Rc<Recipient>>>> =
        const { RefCell::new(ManuallyDrop::new(BTreeMap::new())) };
}

/// Brings the replies that are ready to the bridge with this id, if it still exists. For callbacks of
/// N-API.
pub(super) fn bring(id: u64) {
    let recipient = RECIPIENTS.with_borrow(|recipients| recipients.get(&id).cloned());
    let Some(recipient) = recipient else { return };
    // A panic must not unwind into Node.
    let brought = catch_panic(|| {
        #[cfg(unix)]
        event_loop::serve(id);
        // Not more locks than JavaScript can confirm.
        recipient.deliver(ROOM, CalledFrom::Callback);
    });
    let outbox = &recipient.outbox;
    if brought.is_none() || outbox.queue.len() > 0 {
        outbox.wake();
    }
}
