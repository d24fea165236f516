//! A JavaScript environment: the main thread's, or a worker's. Locks end with their environment and not
//! with the JavaScript objects, which may be garbage collected while a lock is held.

use parking_lot::Mutex;
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, sys};

use super::bridge;
use super::hold::Held;
use super::panics::catch_panic;
use super::runtime::runtime;
use crate::map::FastMap;

pub(super) struct Environment {
    state: Mutex<State>,
    wake: Wake,
}

type Wake = ThreadsafeFunction<u64, (), (), napi::Status, false, true>;

#[derive(Default)]
struct State {
    has_ended: bool,
    last: u64,
    /// Locks whose backend was garbage collected. They keep their client alive, with its heartbeats and
    /// connections, until they end.
    adopted: FastMap<u64, Arc<Held>>,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Environment>>> = const { RefCell::new(None) };
}

impl Environment {
    /// Returns the environment that calls us.
    pub fn current(env: Env) -> napi::Result<Arc<Self>> {
        if let Some(current) = CURRENT.with_borrow(Option::clone) {
            return Ok(current);
        }
        let current = Arc::new(Self {
            state: Mutex::default(),
            wake: wake_up(env)?,
        });
        let hook = Arc::into_raw(Arc::clone(&current)).cast_mut().cast();
        // SAFETY: the environment is alive, because it calls us. It calls the hook once, and the hook
        // takes over the reference.
        let status = unsafe { sys::napi_add_env_cleanup_hook(env.raw(), Some(on_end), hook) };
        if status != sys::Status::napi_ok {
            // SAFETY: the hook was not registered, so nothing else has the reference.
            drop(unsafe { Arc::from_raw(hook.cast::<Self>().cast_const()) });
            let reason = "The end of the environment cannot be observed";
            return Err(napi::Error::from_reason(reason));
        }
        CURRENT.set(Some(Arc::clone(&current)));
        Ok(current)
    }

    /// Wakes the JavaScript thread, which then delivers the replies of this bridge.
    pub fn wake(&self, bridge: u64) {
        // This fails only while the environment is torn down. Nobody waits for replies then.
        let mode = ThreadsafeFunctionCallMode::NonBlocking;
        self.wake.call(bridge, mode);
    }

    pub fn has_ended(&self) -> bool {
        self.state.lock().has_ended
    }

    /// Keeps these locks alive until they end, or until the environment does.
    pub fn adopt(self: &Arc<Self>, held: &Arc<Held>) {
        // Without the runtime no lock can have been acquired.
        let Ok(runtime) = runtime() else { return };
        let mut state = self.state.lock();
        if state.has_ended {
            drop(state);
            return held.end_all();
        }
        state.last += 1;
        let number = state.last;
        state.adopted.insert(number, Arc::clone(held));
        drop(state);
        let (environment, held) = (Arc::clone(self), Arc::clone(held));
        runtime.spawn(async move {
            held.until_not_held().await;
            environment.state.lock().adopted.remove(&number);
        });
    }

    fn end(&self) {
        let mut state = self.state.lock();
        state.has_ended = true;
        let adopted = std::mem::take(&mut state.adopted);
        drop(state);
        for held in adopted.values() {
            held.end_all();
        }
    }
}

/// Creates the function that wakes the JavaScript thread. All contexts of the environment share one,
/// because it keeps the context alive that created it: Node.js attaches the state of `AsyncLocalStorage`
/// to it. It is weak, so that an idle backend does not keep the process alive.
fn wake_up(env: Env) -> napi::Result<Wake> {
    env.create_function::<(), ()>("wake", nothing)?
        .build_threadsafe_function::<u64>()
        .weak::<true>()
        .build_callback(|call| {
            bridge::deliver(call.value);
            Ok(())
        })
}

/// The JavaScript function that a threadsafe function must have. It is never called for its effect.
unsafe extern "C" fn nothing(_: sys::napi_env, _: sys::napi_callback_info) -> sys::napi_value {
    ptr::null_mut()
}

unsafe extern "C" fn on_end(environment: *mut c_void) {
    catch_panic(|| {
        // SAFETY: the environment calls this once, with the reference of `current`.
        let environment = unsafe { Arc::from_raw(environment.cast_const().cast::<Environment>()) };
        CURRENT.set(None);
        environment.end();
    });
}
