//! Delivers replies to JavaScript: one function of each context receives all replies that are ready.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use napi::bindgen_prelude::{Function, JsValue, ToNapiValue, Unknown};
use napi::sys::Status;
use napi::{Env, sys};
use napi_derive::napi;
use tokio::runtime::Handle;

use super::environment::Environment;
#[cfg(unix)]
use super::event_loop;
use super::host::JavascriptHost;
use super::outbox::{Outbox, ROOM, SharedMemory};
use super::panics::catch_panic;
use super::questions::Questions;
use super::reply::{self, Reply};
use super::runtime::runtime;
use crate::error::Error;
use crate::net::event_loop::EventLoop;

/// The connection between one JavaScript context and the engine. The main thread and each worker have a
/// context, and some test runners create more.
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
    recipient: Rc<Recipient>,
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
        RECIPIENTS.with_borrow_mut(|recipients| recipients.insert(id, Rc::clone(&recipient)));
        Ok(Self {
            id,
            event_loop,
            questions: Arc::new(Questions::new(Arc::clone(&outbox))),
            host: JavascriptHost::new(Arc::clone(&outbox), runtime.clone()),
            environment,
            outbox,
            runtime,
            receipts,
            recipient,
        })
    }

    /// Returns the memory in which JavaScript confirms that it received a lock.
    #[napi(ts_return_type = "ArrayBuffer")]
    pub fn receipts<'env>(&self) -> napi::Result<Unknown<'env>> {
        self.receipts.value()
    }

    /// Delivers the replies that are ready now, instead of after a wake-up.
    #[napi]
    pub fn take(&self) {
        // A panic must not unwind into Node.
        catch_panic(|| self.recipient.deliver(usize::MAX, CalledFrom::Callback));
    }

    /// Sets the time of JavaScript's clocks: Unix time, and a time that never goes back.
    #[napi]
    pub fn set_time(&self, unix_ms: f64, steady_ms: f64) {
        self.host.set_time(unix_ms, steady_ms);
    }

    /// Answers a question. `take` then delivers the replies that follow from it.
    #[napi]
    pub fn answer(&self, question: f64, ok: bool, json: String) {
        self.turn(|| self.questions.answer(question as u64, ok, &json));
    }

    /// Reports that a timer of the host has fired. `take` then delivers the replies that follow from it.
    #[napi]
    pub fn fire(&self, timer: f64) {
        self.turn(|| self.host.fire(timer as u64));
    }

    fn turn(&self, work: impl FnOnce()) {
        // A panic must not unwind into Node.
        catch_panic(|| self.outbox.in_turn(&self.runtime, work));
    }
}

/// Runs when the context has ended. From then on no question is answered, no timer fires, and no reply is
/// taken.
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
    /// The recipients by the id of their bridge, which removes its own. Recipients that are left when the
    /// process exits must not be dropped, because their environment may be gone.
    static RECIPIENTS: RefCell<ManuallyDrop<BTreeMap<u64, Rc<Recipient>>>> =
        const { RefCell::new(ManuallyDrop::new(BTreeMap::new())) };
}

/// Delivers the replies that are ready to the bridge with this id, if it still exists. Callbacks of N-API
/// call this.
pub(super) fn deliver(id: u64) {
    let recipient = RECIPIENTS.with_borrow(|recipients| recipients.get(&id).cloned());
    let Some(recipient) = recipient else { return };
    // A panic must not unwind into Node.
    let delivered = catch_panic(|| {
        #[cfg(unix)]
        event_loop::serve(id);
        // At most as many locks as JavaScript can confirm.
        recipient.deliver(ROOM, CalledFrom::Callback);
    });
    let outbox = &recipient.outbox;
    if delivered.is_none() || outbox.queue.len() > 0 {
        outbox.wake();
    }
}

/// How many replies one call of the JavaScript function passes. They are passed as arguments, which are far
/// cheaper than an array.
const MAX_REPLIES_PER_CALL: usize = 64;

/// Where JavaScript is called from.
#[derive(Clone, Copy)]
pub(super) enum CalledFrom {
    /// From the event loop itself. Everything that follows from the call, promises included, has run
    /// when it returns.
    #[cfg_attr(not(unix), allow(dead_code))]
    EventLoop,
    /// From a callback of N-API. What follows from the call runs when the callback returns.
    Callback,
}

/// The JavaScript function that receives replies. Its raw pointers keep it on the thread of its environment.
pub(super) struct Recipient {
    env: sys::napi_env,
    /// A weak reference. A strong one would keep the whole JavaScript context alive, and a process may
    /// have many contexts, one after the other: Jest has one for each test file. JavaScript keeps the
    /// function while it waits for a reply.
    function: sys::napi_ref,
    pub outbox: Arc<Outbox>,
}

impl Recipient {
    /// # Safety
    /// `function` must be a value of `env`, which calls us, and the result must be used and dropped
    /// on this thread, before the environment ends.
    pub unsafe fn new(env: Env, function: sys::napi_value, outbox: Arc<Outbox>) -> Option<Self> {
        let (env, mut reference) = (env.raw(), ptr::null_mut());
        // SAFETY: as the caller guarantees.
        let status = unsafe { sys::napi_create_reference(env, function, 0, &raw mut reference) };
        (status == Status::napi_ok).then_some(Self {
            env,
            function: reference,
            outbox,
        })
    }

    /// Calls the function with the oldest replies that are ready, at most `limit` of them. If the
    /// environment is ending and takes no more, the rest stays in the outbox for [`Outbox::end`].
    pub fn deliver(&self, limit: usize, from: CalledFrom) {
        let mut left = limit;
        while left > 0 {
            self.outbox.read_receipts();
            let ready = self.outbox.queue.take(left.min(MAX_REPLIES_PER_CALL));
            left -= ready.len();
            if ready.is_empty() || !self.call(ready, from) {
                return;
            }
        }
    }

    /// Calls the function with these replies. Returns whether the environment can be called again.
    fn call(&self, ready: Vec<(u64, Reply)>, from: CalledFrom) -> bool {
        let Some(_scope) = Scope::open(self.env) else {
            return false;
        };
        // A pending exception would make the call fail.
        self.report_exception();
        let Some((function, global)) = self.function_and_global() else {
            return false;
        };
        let mut arguments = Vec::with_capacity(2 * ready.len());
        for (id, reply) in ready {
            arguments.extend(self.values(id, reply).into_iter().flatten());
        }
        let (count, arguments) = (arguments.len(), arguments.as_ptr());
        let (context, result) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: this is the environment's thread, and the environment lives; all values are of the
        // open scope.
        let status = unsafe {
            match from {
                CalledFrom::EventLoop => sys::napi_make_callback(
                    self.env, context, global, function, count, arguments, result,
                ),
                CalledFrom::Callback => {
                    sys::napi_call_function(self.env, global, function, count, arguments, result)
                }
            }
        };
        // If nothing was thrown, nothing was called: the environment is ending.
        status == Status::napi_ok || self.report_exception()
    }

    fn function_and_global(&self) -> Option<(sys::napi_value, sys::napi_value)> {
        let (mut function, mut global) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the environment lives and a scope is open, by `call`.
        unsafe {
            sys::napi_get_reference_value(self.env, self.function, &raw mut function);
            sys::napi_get_global(self.env, &raw mut global);
        }
        (!function.is_null() && !global.is_null()).then_some((function, global))
    }

    /// Makes the arguments for a reply. If its text cannot be passed, the caller gets an error, because it
    /// would otherwise wait for ever.
    fn values(&self, id: u64, reply: Reply) -> Option<[sys::napi_value; 2]> {
        let env = self.env;
        // SAFETY: the environment lives and a scope is open, by `call`.
        let number = unsafe { f64::to_napi_value(env, id as f64) }.ok()?;
        let (text, unclaimed) = reply.into_parts();
        // SAFETY: as above.
        let value = unsafe { <&str>::to_napi_value(env, &text) };
        if let Ok(value) = value {
            self.outbox.expect_receipt(id, unclaimed);
            return Some([number, value]);
        }
        let error = reply::error(&Error::internal(
            "The reply could not be passed to JavaScript, which may be out of memory",
        ));
        // SAFETY: as above.
        let value = unsafe { String::to_napi_value(env, error) };
        Some([number, value.ok()?])
    }

    /// Reports an uncaught exception to the process. Returns whether there was one.
    fn report_exception(&self) -> bool {
        let (mut pending, mut thrown) = (false, ptr::null_mut());
        // SAFETY: the environment lives and a scope is open, by `call`. N-API refuses a value
        // that is missing.
        unsafe {
            sys::napi_is_exception_pending(self.env, &raw mut pending);
            if pending {
                sys::napi_get_and_clear_last_exception(self.env, &raw mut thrown);
                sys::napi_fatal_exception(self.env, thrown);
            }
        }
        pending
    }
}

impl Drop for Recipient {
    fn drop(&mut self) {
        // SAFETY: the reference is deleted only here, and the environment lives.
        unsafe { sys::napi_delete_reference(self.env, self.function) };
    }
}

/// A scope of N-API. Values that are created in it can be collected afterwards.
struct Scope {
    env: sys::napi_env,
    scope: sys::napi_handle_scope,
}

impl Scope {
    fn open(env: sys::napi_env) -> Option<Self> {
        let mut scope = ptr::null_mut();
        // SAFETY: the environment lives, by the only caller.
        let status = unsafe { sys::napi_open_handle_scope(env, &raw mut scope) };
        (status == Status::napi_ok).then_some(Self { env, scope })
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        // SAFETY: scopes end in the reverse order of their beginning, as variables do.
        unsafe { sys::napi_close_handle_scope(self.env, self.scope) };
    }
}

#[cfg(test)]
mod tests;
