//! An operation that was polled once on the caller's thread and has to wait.
//!
//! Woken in a [`turn`] of an event loop it goes on there. Else it moves to the I/O threads, but only
//! then: moving it at once would wake a thread only to find that it waits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

type Rest = BoxFuture<'static, ()>;
type Ready = VecDeque<(Arc<Parked>, Rest)>;

pub struct Parked {
    runtime: Handle,
    state: Mutex<State>,
}

enum State {
    /// On a caller's thread.
    Polled,
    /// Something happened meanwhile.
    Woken,
    Parked(Rest),
}

thread_local! {
    /// What can go on here; nothing outside a turn.
    static READY: RefCell<Option<Ready>> = const { RefCell::new(None) };
}

/// Runs `work` and then, on this thread, the operations that it woke.
pub fn turn(runtime: &Handle, work: impl FnOnce()) {
    let _context = runtime.enter();
    READY.set(Some(VecDeque::new()));
    let _end = End;
    work();
    while let Some((parked, rest)) = next() {
        parked.go_on(rest);
    }
}

/// Leaves to the I/O threads what a panic kept from running.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        for (parked, rest) in READY.take().into_iter().flatten() {
            parked.runtime.spawn(rest);
        }
    }
}

fn next() -> Option<(Arc<Parked>, Rest)> {
    READY.with_borrow_mut(|ready| ready.as_mut()?.pop_front())
}

impl Parked {
    pub fn new(runtime: Handle) -> Arc<Self> {
        Arc::new(Self {
            runtime,
            state: Mutex::new(State::Polled),
        })
    }

    /// Leaves `rest` until the operation is woken.
    pub fn park(self: &Arc<Self>, rest: Rest) {
        let mut state = self.lock();
        match *state {
            State::Woken => {
                drop(state);
                self.schedule(rest);
            }
            _ => *state = State::Parked(rest),
        }
    }

    fn schedule(self: &Arc<Self>, rest: Rest) {
        let elsewhere = READY.with_borrow_mut(|ready| match ready {
            Some(ready) => {
                ready.push_back((Arc::clone(self), rest));
                None
            }
            None => Some(rest),
        });
        if let Some(rest) = elsewhere {
            self.runtime.spawn(rest);
        }
    }

    fn go_on(self: Arc<Self>, mut rest: Rest) {
        *self.lock() = State::Polled;
        let waker = Waker::from(Arc::clone(&self));
        let mut context = Context::from_waker(&waker);
        // A panic ends the operation, not the program.
        let polled = catch_unwind(AssertUnwindSafe(|| rest.as_mut().poll(&mut context)));
        if matches!(polled, Ok(Poll::Pending)) {
            self.park(rest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let before = std::mem::replace(&mut *self.lock(), State::Woken);
        if let State::Parked(rest) = before {
            self.schedule(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};
    use tokio::sync::oneshot;

    /// An operation that waits for two signals; it tells on which thread each reached it.
    fn start() -> ([oneshot::Sender<()>; 2], mpsc::Receiver<ThreadId>) {
        let (first, first_comes) = oneshot::channel();
        let (second, second_comes) = oneshot::channel();
        let (done, result) = mpsc::channel();
        let parked = Parked::new(Handle::current());
        let mut rest: Rest = Box::pin(async move {
            for signal in [first_comes, second_comes] {
                signal.await.unwrap();
                done.send(thread::current().id()).unwrap();
            }
        });
        let waker = Waker::from(Arc::clone(&parked));
        assert!(
            rest.as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        parked.park(rest);
        ([first, second], result)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn goes_on_here_in_a_turn_and_elsewhere_outside_one() {
        let here = thread::current().id();
        let ([first, second], result) = start();
        turn(&Handle::current(), || {
            first.send(()).unwrap();
            // Only after the work that woke it.
            assert!(result.try_recv().is_err());
        });
        assert_eq!(result.try_recv(), Ok(here));
        second.send(()).unwrap();
        assert_ne!(result.recv(), Ok(here));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_woken_before_it_is_parked_is_not_lost() {
        let ([first, second], result) = start();
        turn(&Handle::current(), || {
            first.send(()).unwrap();
            second.send(()).unwrap();
        });
        assert_eq!(result.iter().count(), 2);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_ends_the_turn_but_loses_nothing() {
        let ([first, second], result) = start();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            turn(&Handle::current(), || {
                first.send(()).unwrap();
                panic!("on purpose");
            });
        }));
        assert!(panicked.is_err());
        second.send(()).unwrap();
        assert_eq!(result.iter().count(), 2);
    }
}
