//! An operation that was polled once on the JavaScript thread and has to wait. It moves to the I/O
//! threads when it can go on: moving it at once would wake a thread only to find that it waits.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use futures_util::future::BoxFuture;
use tokio::runtime::Runtime;

pub struct Parked {
    runtime: &'static Runtime,
    state: Mutex<State>,
}

enum State {
    /// On the JavaScript thread.
    Polled,
    /// Something happened meanwhile.
    Woken,
    Parked(BoxFuture<'static, ()>),
}

impl Parked {
    pub fn new(runtime: &'static Runtime) -> Arc<Self> {
        Arc::new(Self {
            runtime,
            state: Mutex::new(State::Polled),
        })
    }

    /// Leaves `rest` until the operation is woken.
    pub fn park(&self, rest: BoxFuture<'static, ()>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::Woken => {
                drop(state);
                self.runtime.spawn(rest);
            }
            _ => *state = State::Parked(rest),
        }
    }
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let before = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, State::Woken)
        };
        if let State::Parked(rest) = before {
            self.runtime.spawn(rest);
        }
    }
}
