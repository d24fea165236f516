//! An operation that was polled once on the caller's thread and has to wait. It goes on where it
//! is cheapest:
//!
//! - woken in a [`turn`] of an event loop, at the end of that turn;
//! - else, if it may, on the very thread that woke it. A backend with threads of its own then
//!   answers from there; a detour would take longer than a short operation itself;
//! - else where its [`Host`] runs things, but only then: moving it there at once would wake a thread
//!   only to find that it waits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;

use super::host::Host;
use crate::sync::{Handle, Mutex, MutexGuard, thread_local};

type Rest = BoxFuture<'static, ()>;
type Ready = VecDeque<(Arc<Parked>, Rest)>;

pub struct Parked {
    host: Arc<dyn Host>,
    runtime: Handle,
    outside: Outside,
    state: Mutex<State>,
}

/// Where an operation goes on that is woken outside a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    Host,
    /// On the thread that wakes it. Only for operations that whoever wakes them may run: quick ones,
    /// that take no lock the waker could hold.
    Waker,
}

enum State {
    /// Being polled.
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
pub fn turn<T>(runtime: &Handle, work: impl FnOnce() -> T) -> T {
    let _context = runtime.enter();
    READY.with(|ready| ready.replace(Some(VecDeque::new())));
    let _end = End;
    let done = work();
    while let Some((parked, rest)) = next() {
        parked.go_on(rest);
    }
    done
}

/// Leaves to the runtime what a panic kept from running.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        for (parked, rest) in READY.with(RefCell::take).into_iter().flatten() {
            parked.host.spawn(rest);
        }
    }
}

fn next() -> Option<(Arc<Parked>, Rest)> {
    READY.with(|ready| ready.borrow_mut().as_mut()?.pop_front())
}

impl Parked {
    pub fn new(host: Arc<dyn Host>, runtime: Handle, outside: Outside) -> Arc<Self> {
        Arc::new(Self {
            host,
            runtime,
            outside,
            state: Mutex::new(State::Polled),
        })
    }

    /// Leaves `rest` until the operation is woken.
    pub fn park(self: &Arc<Self>, rest: Rest) {
        if let Some(rest) = self.leave(rest) {
            self.schedule(rest);
        }
    }

    /// Gives `rest` back if the operation was woken meanwhile.
    fn leave(&self, rest: Rest) -> Option<Rest> {
        let mut state = self.lock();
        if matches!(*state, State::Woken) {
            return Some(rest);
        }
        *state = State::Parked(rest);
        None
    }

    /// Leaves `rest` to the turn that this thread is in; gives it back when it is in none.
    pub fn go_on_in_turn(self: &Arc<Self>, rest: Rest) -> Option<Rest> {
        READY.with(|ready| match &mut *ready.borrow_mut() {
            Some(ready) => {
                ready.push_back((Arc::clone(self), rest));
                None
            }
            None => Some(rest),
        })
    }

    fn schedule(self: &Arc<Self>, rest: Rest) {
        match (self.go_on_in_turn(rest), self.outside) {
            (None, _) => {}
            (Some(rest), Outside::Host) => self.host.spawn(rest),
            (Some(rest), Outside::Waker) => {
                let _context = self.runtime.enter();
                self.go_on(rest);
            }
        }
    }

    fn go_on(self: &Arc<Self>, mut rest: Rest) {
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        loop {
            *self.lock() = State::Polled;
            // A panic ends the operation, not the thread.
            let polled = catch_unwind(AssertUnwindSafe(|| rest.as_mut().poll(&mut context)));
            if !matches!(polled, Ok(Poll::Pending)) {
                return;
            }
            match self.leave(rest) {
                Some(woken) => rest = woken,
                None => return,
            }
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
    use super::super::system::SystemHost;
    use super::*;
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};
    use tokio::sync::oneshot;

    fn start(outside: Outside, operation: impl Future<Output = ()> + Send + 'static) {
        let host = Arc::new(SystemHost::new(Handle::current()));
        let parked = Parked::new(host, Handle::current(), outside);
        let mut rest: Rest = Box::pin(operation);
        let waker = Waker::from(Arc::clone(&parked));
        if rest
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
        {
            parked.park(rest);
        }
    }

    /// An operation that waits for two signals; it tells on which thread each reached it.
    fn start_waiting(outside: Outside) -> ([oneshot::Sender<()>; 2], mpsc::Receiver<ThreadId>) {
        let (first, first_comes) = oneshot::channel();
        let (second, second_comes) = oneshot::channel();
        let (done, result) = mpsc::channel();
        start(outside, async move {
            for signal in [first_comes, second_comes] {
                signal.await.unwrap();
                done.send(thread::current().id()).unwrap();
            }
        });
        ([first, second], result)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn goes_on_here_in_a_turn_and_on_the_runtime_outside_one() {
        let here = thread::current().id();
        let ([first, second], result) = start_waiting(Outside::Host);
        turn(&Handle::current(), || {
            first.send(()).unwrap();
            // Only after the work that woke it.
            assert!(result.try_recv().is_err());
        });
        assert_eq!(result.try_recv(), Ok(here));
        second.send(()).unwrap();
        assert_ne!(result.recv(), Ok(here));
    }

    #[tokio::test]
    async fn goes_on_where_it_is_woken() {
        let ([first, second], result) = start_waiting(Outside::Waker);
        for signal in [first, second] {
            let other = thread::spawn(move || {
                signal.send(()).unwrap();
                thread::current().id()
            });
            assert_eq!(other.join().unwrap(), result.recv().unwrap());
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_woken_before_it_is_parked_is_not_lost() {
        let ([first, second], result) = start_waiting(Outside::Host);
        turn(&Handle::current(), || {
            first.send(()).unwrap();
            second.send(()).unwrap();
        });
        assert_eq!(result.iter().count(), 2);
    }

    #[tokio::test]
    async fn what_wakes_itself_is_polled_again() {
        for outside in [Outside::Host, Outside::Waker] {
            let (done, result) = oneshot::channel();
            start(outside, async move {
                for _ in 0..3 {
                    let mut first = true;
                    std::future::poll_fn(|context| {
                        context.waker().wake_by_ref();
                        if std::mem::take(&mut first) {
                            Poll::Pending
                        } else {
                            Poll::Ready(())
                        }
                    })
                    .await;
                }
                done.send(()).unwrap();
            });
            result.await.unwrap();
        }
    }

    /// Wake-ups of one thread while another one polls are not lost.
    #[tokio::test]
    async fn no_wake_up_is_lost() {
        for outside in [Outside::Host, Outside::Waker] {
            let (numbers, mut incoming) = tokio::sync::mpsc::unbounded_channel();
            let (done, result) = oneshot::channel();
            start(outside, async move {
                let mut sum = 0u64;
                while let Some(number) = incoming.recv().await {
                    sum += number;
                }
                done.send(sum).unwrap();
            });
            let threads = [1, 2, 3].map(|number| {
                let numbers = numbers.clone();
                thread::spawn(move || (0..10_000).for_each(|_| numbers.send(number).unwrap()))
            });
            drop(numbers);
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(result.await.unwrap(), 60_000);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_of_the_turn_loses_nothing() {
        let ([first, second], result) = start_waiting(Outside::Host);
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

    #[tokio::test]
    async fn a_panic_stays_in_the_operation() {
        for outside in [Outside::Host, Outside::Waker] {
            let (go, comes) = oneshot::channel();
            let (done, result) = oneshot::channel::<()>();
            start(outside, async move {
                let _done = done;
                comes.await.unwrap();
                panic!("on purpose");
            });
            go.send(()).unwrap();
            assert!(result.await.is_err());
        }
    }
}
