//! The JavaScript function that receives replies, and how it is called from outside JavaScript. All of
//! this stays on the thread of its environment: raw pointers are not sent.

use std::ptr;
use std::sync::Arc;

use napi::sys::{self, Status};
use napi::{Env, bindgen_prelude::ToNapiValue};

use super::outbox::Outbox;
use super::reply::{self, Reply};
use crate::error::Error;

/// How many replies a call passes. Arguments are far cheaper to pass than an array.
const AT_ONCE: usize = 64;

/// Where JavaScript is called from.
#[derive(Clone, Copy)]
pub enum CalledFrom {
    /// From the event loop itself. Everything that follows from the call, promises included, has run
    /// when it returns.
    #[cfg_attr(not(unix), allow(dead_code))]
    EventLoop,
    /// From a callback of N-API. What follows from the call runs when the callback returns.
    Callback,
}

pub struct Recipient {
    env: sys::napi_env,
    /// Weak, because it would keep its whole JavaScript context alive otherwise. A process may have many
    /// of them, one after the other: Jest has one for each test file. JavaScript keeps the function while
    /// it waits for a reply.
    function: sys::napi_ref,
    pub outbox: Arc<Outbox>,
}

impl Recipient {
    /// # Safety
    /// `function` must be a value of `env`, which calls us, and the result must be used and dropped
    /// on this thread, before the environment ends.
    pub unsafe fn new(env: Env, function: sys::napi_value, outbox: Arc<Outbox>) -> Option<Self> {
        let (env, mut reference) = (env.raw(), ptr::null_mut());
        // SAFETY: by the caller.
        let status = unsafe { sys::napi_create_reference(env, function, 0, &raw mut reference) };
        (status == Status::napi_ok).then_some(Self {
            env,
            function: reference,
            outbox,
        })
    }

    /// Calls the function with the oldest replies that are ready. If the environment takes no more, the
    /// rest stays in the outbox, for [`Outbox::end`].
    pub fn deliver(&self, most: usize, from: CalledFrom) {
        let mut left = most;
        while left > 0 {
            self.outbox.read_receipts();
            let ready = self.outbox.queue.take(left.min(AT_ONCE));
            left -= ready.len();
            if ready.is_empty() || !self.call(ready, from) {
                return;
            }
        }
    }

    /// Whether the environment can be called again.
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

    /// Makes the arguments for a reply. If the text cannot be passed, the caller gets an error: it would
    /// wait for ever otherwise.
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
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::outbox::{CELLS, Receipts};
    use super::*;

    #[test]
    fn what_cannot_be_delivered_is_given_back() {
        let mut cells = Box::new([0.0; CELLS]);
        let outbox = Arc::new(Outbox::new(0, Receipts::in_memory(&mut cells), || {}));
        // Outside Node.js every call of N-API fails.
        let recipient = Recipient {
            env: ptr::null_mut(),
            function: ptr::null_mut(),
            outbox: Arc::clone(&outbox),
        };
        let given_back = Arc::new(AtomicUsize::new(0));
        for id in 1..=3 * AT_ONCE {
            let given_back = Arc::clone(&given_back);
            let give_back = move || {
                given_back.fetch_add(1, Ordering::Relaxed);
            };
            let reply: Reply = format!("1{id}").into();
            let reply = reply.or_else(give_back);
            outbox.queue.push(id as u64, reply);
        }
        recipient.deliver(usize::MAX, CalledFrom::Callback);
        assert_eq!(given_back.load(Ordering::Relaxed), AT_ONCE);
        outbox.end();
        assert_eq!(given_back.load(Ordering::Relaxed), 3 * AT_ONCE);
    }
}
