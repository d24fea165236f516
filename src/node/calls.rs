//! The operations that every lock needs, as plain functions for JavaScript. A method of a class looks its
//! object up and guards it, which takes longer than to acquire a lock in memory. Most of the remaining
//! time goes into fetching arguments, so a string is read with a single call of N-API.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use napi::bindgen_prelude::{Either, FromNapiValue, JsObjectValue, Object, ToNapiValue, Unknown};
use napi::{Env, Status, sys};
use tokio_util::sync::CancellationToken;

use super::operation::{Answer, Operations, Outcome, checked, failed, key_and_ttl};
use super::panics::catch_panic;
use super::reply::{self, Reply};
use crate::client::LockRequest;
use crate::error::Error;
use crate::lock::{Access, Key, LockId};

/// Makes a call with its arguments.
type Call = fn(&Operations, &Arguments) -> Answer;

const CALLS: [(&str, Call); 6] = [
    ("acquire", |backend, given| {
        let (ttl_ms, cancellable) = (given.number(1), given.boolean(2));
        let access = access(given.number(3));
        given.text(0, |key| backend.acquire(key, ttl_ms, cancellable, access))
    }),
    ("release", |backend, given| {
        given.text(0, |lock_id| {
            if given.is_text(1) {
                given.text(1, |key| backend.release(lock_id, Some(key)))
            } else {
                backend.release(lock_id, None)
            }
        })
    }),
    ("hold", |backend, given| {
        let ttl_ms = given.number(1);
        let [wait, auto_extend, cancellable] = [2, 3, 4].map(|index| given.boolean(index));
        let (caller, limits) = (given.number(5), given.numbers(6));
        given.text(0, |key| {
            backend.hold(key, ttl_ms, wait, auto_extend, cancellable, caller, limits)
        })
    }),
    ("heldFor", |backend, given| {
        Either::B(backend.held_for(given.number(0)))
    }),
    ("isLate", |backend, given| {
        Either::B(f64::from(backend.is_late(given.number(0))))
    }),
    ("endHold", |backend, given| {
        backend.end_hold(given.number(0), given.boolean(1), given.boolean(2))
    }),
];

impl Operations {
    pub fn acquire(&self, key: &str, ttl_ms: f64, cancellable: bool, access: Access) -> Answer {
        checked(key_and_ttl(key, ttl_ms), |(key, ttl)| {
            let client = Arc::clone(&self.client);
            let cancel = cancellable.then(CancellationToken::new);
            let token = cancel.clone();
            let operation = async move {
                let lock = LockRequest {
                    key: key.clone(),
                    ttl,
                    access,
                    caller: 0,
                };
                let settled = Arc::clone(&client).acquire(lock, cancel).await;
                Outcome::of(settled, |grant| {
                    let text = reply::acquired(&grant);
                    Reply::from(text).or_else(move || client.disown(grant.lock_id, &key, ttl))
                })
            };
            self.start_single(operation, token)
        })
    }

    /// Releases the lock. If `key` is given, a waiter of this process is woken.
    pub fn release(&self, lock_id: &str, key: Option<&str>) -> Answer {
        checked(LockId::parse(lock_id), |lock_id| {
            let key = key.and_then(|key| Key::new(key).ok());
            self.call(reply::released, move |client| async move {
                client.release(lock_id, key).await
            })
        })
    }
}

/// Reads the limit of a shared lock. The lock is exclusive if the limit is less than 1 or not a number.
pub(super) fn access(limit: f64) -> Access {
    if limit >= 1.0 {
        // The cast saturates: infinity becomes `UNLIMITED`.
        let limit = limit as u32;
        Access::Shared { limit }
    } else {
        Access::Exclusive
    }
}

/// The data of a function, which the function keeps alive.
struct Bound {
    backend: Arc<Operations>,
    call: Call,
}

/// Creates an object with all functions.
pub(super) fn bind<'env>(env: &'env Env, backend: &Arc<Operations>) -> napi::Result<Object<'env>> {
    let mut calls = Object::new(env)?;
    for (name, call) in CALLS {
        let bound = Bound {
            backend: Arc::clone(backend),
            call,
        };
        calls.set_named_property(name, function(env, name, bound)?)?;
    }
    Ok(calls)
}

fn function<'env>(env: &'env Env, name: &str, bound: Bound) -> napi::Result<Unknown<'env>> {
    let (env, mut function) = (env.raw(), ptr::null_mut());
    let bound = Box::into_raw(Box::new(bound)).cast::<c_void>();
    // SAFETY: the environment calls us. `bound` lives as long as the function: only the finalizer frees
    // it, or we do if the finalizer could not be added.
    unsafe {
        let made = sys::napi_create_function(
            env,
            name.as_ptr().cast(),
            name.len() as isize,
            Some(invoke),
            bound,
            &raw mut function,
        );
        let (hint, reference) = (ptr::null_mut(), ptr::null_mut());
        if made != sys::Status::napi_ok
            || sys::napi_add_finalizer(env, function, bound, Some(free), hint, reference)
                != sys::Status::napi_ok
        {
            drop(Box::from_raw(bound.cast::<Bound>()));
            return Err(napi::Error::new(
                Status::GenericFailure,
                "Cannot create a native function",
            ));
        }
        Unknown::from_napi_value(env, function)
    }
}

unsafe extern "C" fn free(_env: sys::napi_env, bound: *mut c_void, _hint: *mut c_void) {
    // SAFETY: `function` made it, and nothing calls its function any more.
    catch_panic(|| drop(unsafe { Box::from_raw(bound.cast::<Bound>()) }));
}

unsafe extern "C" fn invoke(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
    let (mut values, mut count) = ([ptr::null_mut(); MAX_ARGUMENTS], MAX_ARGUMENTS);
    let (this, mut bound) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: JavaScript calls us with `env` and `info` now. `values` has room for `count` arguments, and
    // N-API fills in `undefined` for arguments that were not given.
    let status = unsafe {
        sys::napi_get_cb_info(
            env,
            info,
            &raw mut count,
            values.as_mut_ptr(),
            this,
            &raw mut bound,
        )
    };
    if status != sys::Status::napi_ok {
        return ptr::null_mut();
    }
    // SAFETY: this is what `function` gave it, and the function lives while it is called.
    let Bound { backend, call } = unsafe { &*bound.cast::<Bound>() };
    let given = Arguments { env, values };
    let answer = catch_panic(|| call(backend, &given)).unwrap_or_else(|| {
        failed(Error::internal(
            "The call failed because of a bug in syncguard. Please report it",
        ))
    });
    // SAFETY: in a call from JavaScript a scope is open.
    unsafe { Answer::to_napi_value(env, answer) }.unwrap_or(ptr::null_mut())
}

fn not_text() -> Answer {
    failed(Error::internal(
        "The native addon expected a string. Install syncguard again",
    ))
}

/// The number of arguments of the call that has the most.
const MAX_ARGUMENTS: usize = 7;

/// The size of the buffer on the stack, into which every key and lockId fits. A longer string is read
/// into the heap.
const BUFFER_BYTES: usize = 640;
/// The length of the longest character. N-API leaves out a last character that does not fit.
const MAX_CHARACTER_BYTES: usize = 4;

/// The arguments of a call. JavaScript has checked their types.
struct Arguments {
    env: sys::napi_env,
    values: [sys::napi_value; MAX_ARGUMENTS],
}

// SAFETY of the blocks below: an `Arguments` exists only during the call that it is made for, in which
// `env` is alive and its values are in scope. If a value has another type, N-API returns an error and
// writes nothing.
impl Arguments {
    fn number(&self, index: usize) -> f64 {
        let mut number = f64::NAN;
        // SAFETY: see above.
        unsafe { sys::napi_get_value_double(self.env, self.values[index], &raw mut number) };
        number
    }

    fn boolean(&self, index: usize) -> bool {
        let mut boolean = false;
        // SAFETY: see above.
        unsafe { sys::napi_get_value_bool(self.env, self.values[index], &raw mut boolean) };
        boolean
    }

    fn is_text(&self, index: usize) -> bool {
        let mut kind = sys::ValueType::napi_undefined;
        // SAFETY: see above.
        unsafe { sys::napi_typeof(self.env, self.values[index], &raw mut kind) };
        kind == sys::ValueType::napi_string
    }

    fn text(&self, index: usize, then: impl FnOnce(&str) -> Answer) -> Answer {
        let value = self.values[index];
        let (mut buffer, mut length) = ([MaybeUninit::<u8>::uninit(); BUFFER_BYTES], 0);
        // SAFETY: see above. The buffer has the length that is passed.
        let status = unsafe {
            let start = buffer.as_mut_ptr().cast();
            sys::napi_get_value_string_utf8(self.env, value, start, BUFFER_BYTES, &raw mut length)
        };
        if status != sys::Status::napi_ok {
            return not_text();
        }
        // N-API writes a zero at the end.
        if length + MAX_CHARACTER_BYTES < BUFFER_BYTES {
            // SAFETY: N-API has written `length` bytes.
            let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast(), length) };
            return std::str::from_utf8(bytes).map_or_else(|_| not_text(), then);
        }
        // SAFETY: see above.
        match unsafe { String::from_napi_value(self.env, value) } {
            Ok(text) => then(&text),
            Err(_) => not_text(),
        }
    }

    /// Reads the numbers of a `Float64Array`. Missing numbers become infinite.
    fn numbers<const COUNT: usize>(&self, index: usize) -> [f64; COUNT] {
        let (mut kind, mut length, mut start) = (0, 0, ptr::null_mut());
        // SAFETY: see above.
        let status = unsafe {
            sys::napi_get_typedarray_info(
                self.env,
                self.values[index],
                &raw mut kind,
                &raw mut length,
                &raw mut start,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        let found = status == sys::Status::napi_ok && kind == sys::TypedarrayType::float64_array;
        let mut numbers = [f64::INFINITY; COUNT];
        if found && !start.is_null() {
            // SAFETY: the array has `length` aligned numbers. JavaScript could change them, but runs only
            // after this call.
            let given = unsafe { std::slice::from_raw_parts(start.cast::<f64>(), length) };
            for (number, given) in numbers.iter_mut().zip(given) {
                *number = *given;
            }
        }
        numbers
    }
}
