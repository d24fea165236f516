//! What it takes to call JavaScript from outside of it, in a callback of libuv. All of this stays
//! on the thread of its environment: raw pointers are not sent.

use std::ptr;

use napi::sys::{self, Status};
use napi::{Env, bindgen_prelude::ToNapiValue};

use crate::error::Error;
use crate::node::reply::{self, Reply};

/// Replies in one call: as arguments they are far cheaper to pass than in an array.
const AT_ONCE: usize = 64;

/// A function that takes replies.
pub struct Recipient {
    env: sys::napi_env,
    function: sys::napi_ref,
}

impl Recipient {
    /// # Safety
    /// `function` must be a value of `env`, which calls us, and the result must be used and dropped
    /// on this thread, before the environment ends.
    pub unsafe fn new(env: Env, function: sys::napi_value) -> Option<Self> {
        let (env, mut reference) = (env.raw(), ptr::null_mut());
        // SAFETY: by the caller.
        let status = unsafe { sys::napi_create_reference(env, function, 1, &raw mut reference) };
        (status == Status::napi_ok).then_some(Self {
            env,
            function: reference,
        })
    }

    /// Calls the function with the replies. All that follows from it, promises included, has run
    /// when this returns. Gives back what could not be delivered now. Once the environment runs no
    /// JavaScript any more, replies are dropped: nobody waits for them.
    pub fn deliver(&self, ready: Vec<(u64, Reply)>) -> Vec<(u64, Reply)> {
        let mut ready = ready.into_iter();
        let mut undelivered = Vec::new();
        while ready.len() > 0 {
            let Some(_scope) = Scope::open(self.env) else {
                break;
            };
            // One that is pending would make the call fail.
            self.report_exception();
            let Some((function, global)) = self.function_and_global() else {
                break;
            };
            let mut arguments = Vec::with_capacity(2 * AT_ONCE);
            for (id, reply) in ready.by_ref().take(AT_ONCE) {
                let text = reply.deliver();
                match self.values(id, &text) {
                    Some(values) => arguments.extend(values),
                    None => undelivered.push((id, text.into())),
                }
            }
            // SAFETY: this is the environment's thread, outside any call of JavaScript, and the
            // environment lives; all values are of the open scope.
            let status = unsafe {
                sys::napi_make_callback(
                    self.env,
                    ptr::null_mut(),
                    global,
                    function,
                    arguments.len(),
                    arguments.as_ptr(),
                    ptr::null_mut(),
                )
            };
            if status != Status::napi_ok && !self.report_exception() {
                // Nothing was thrown, so nothing was called: the environment is ending.
                return Vec::new();
            }
        }
        undelivered.extend(ready);
        undelivered
    }

    fn function_and_global(&self) -> Option<(sys::napi_value, sys::napi_value)> {
        let (mut function, mut global) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the environment lives and a scope is open, by `deliver`.
        unsafe {
            sys::napi_get_reference_value(self.env, self.function, &raw mut function);
            sys::napi_get_global(self.env, &raw mut global);
        }
        (!function.is_null() && !global.is_null()).then_some((function, global))
    }

    /// The arguments for a reply. One that cannot be passed on, whatever the reason, is an error to
    /// the caller, which would wait for ever otherwise.
    fn values(&self, id: u64, text: &str) -> Option<[sys::napi_value; 2]> {
        let env = self.env;
        // SAFETY: the environment lives and a scope is open, by `deliver`.
        unsafe {
            let id = f64::to_napi_value(env, id as f64).ok()?;
            let text = <&str>::to_napi_value(env, text).or_else(|_| {
                let error = reply::error(&Error::internal("The reply could not be passed on"));
                String::to_napi_value(env, error)
            });
            Some([id, text.ok()?])
        }
    }

    /// Hands an exception over to the process, as one that nobody caught. Whether there was one.
    fn report_exception(&self) -> bool {
        let (mut pending, mut thrown) = (false, ptr::null_mut());
        // SAFETY: the environment lives and a scope is open, by `deliver`. N-API refuses a value
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

/// Values that are made while it is open can be forgotten afterwards.
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

/// The environment wants to end, and waits until this is dropped.
pub struct Ending(sys::napi_async_cleanup_hook_handle);

impl Ending {
    /// # Safety
    /// `hook` must be what an asynchronous cleanup hook is called with now, and given back nowhere
    /// else.
    pub unsafe fn new(hook: sys::napi_async_cleanup_hook_handle) -> Self {
        Self(hook)
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // SAFETY: by whoever made this; the hook is given back only here.
        unsafe { sys::napi_remove_async_cleanup_hook(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_delivered_is_given_back_in_its_order() {
        // Outside Node.js every call of N-API fails.
        let recipient = Recipient {
            env: ptr::null_mut(),
            function: ptr::null_mut(),
        };
        let ids = 1..=3 * AT_ONCE as u64;
        let ready = ids.clone().map(|id| (id, format!("1{id}").into()));
        let undelivered = recipient.deliver(ready.collect());
        let expected = ids.map(|id| (id, format!("1{id}")));
        assert!(
            undelivered
                .into_iter()
                .map(|(id, reply)| (id, reply.deliver()))
                .eq(expected)
        );
    }
}
