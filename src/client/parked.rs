//! An operation that was polled once on its caller's thread and has to wait. When it is woken, it
//! continues where that is cheapest:
//!
//! - at the end of the [`turn`] of the event loop that woke it, if it was woken in one;
//! - otherwise, if it may, on the thread that woke it. A backend with threads of its own answers from
//!   there, and moving a short operation to another thread would take longer than the operation;
//! - otherwise where its [`Host`] runs tasks. It is moved there only when it is woken: moving it at once
//!   would wake a thread only to find that the operation waits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;

use super::host::Host;
use crate::sync::{Handle, Mutex, thread_local};

type Rest = BoxFuture<'static, ()>;
type Ready = VecDeque<(Arc<Parked>, Rest)>;

pub struct Parked {
    host: Arc<dyn Host>,
    runtime: Handle,
    outside: Outside,
    state: Mutex<State>,
}

/// Where an operation continues that is woken outside a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// In a task of its host.
    Host,
    /// On the thread that wakes it. Only for operations that are quick and take no lock that this
    /// thread could hold.
    Waker,
}

enum State {
    /// The operation is being polled.
    Polled,
    /// The operation was woken while it was being polled.
    Woken,
    Parked(Rest),
}

/// A turn of an event loop.
struct Turn {
    /// The number of the bridge that delivers the replies when the turn is over.
    owner: u64,
    /// Operations that were woken in the turn.
    ready: Ready,
}

thread_local! {
    /// The turn that this thread is in.
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// Runs `work` and then, on this thread, the operations that it woke. See [`is_in_turn_of`] for `owner`.
pub fn turn<T>(owner: u64, runtime: &Handle, work: impl FnOnce() -> T) -> T {
    let _context = runtime.enter();
    let ready = VecDeque::new();
    TURN.with(|turn| turn.replace(Some(Turn { owner, ready })));
    let _end = EndOfTurn;
    let done = work();
    while let Some((parked, rest)) = next() {
        parked.resume(rest);
    }
    done
}

/// Returns whether this thread is in a turn of `owner`, which delivers all replies when the turn is over.
pub fn is_in_turn_of(owner: u64) -> bool {
    TURN.with(|turn| {
        turn.borrow()
            .as_ref()
            .is_some_and(|turn| turn.owner == owner)
    })
}

/// Ends the turn. Also runs on unwind, and moves the operations that are left to their hosts.
struct EndOfTurn;

impl Drop for EndOfTurn {
    fn drop(&mut self) {
        let turn = TURN.with(RefCell::take);
        for (parked, rest) in turn.into_iter().flat_map(|turn| turn.ready) {
            parked.host.spawn(rest);
        }
    }
}

fn next() -> Option<(Arc<Parked>, Rest)> {
    TURN.with(|turn| turn.borrow_mut().as_mut()?.ready.pop_front())
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

    /// Keeps `rest` until the operation is woken.
    pub fn park(self: &Arc<Self>, rest: Rest) {
        if let Some(rest) = self.leave(rest) {
            self.schedule(rest);
        }
    }

    /// Returns `rest` if the operation was woken in the meantime.
    fn leave(&self, rest: Rest) -> Option<Rest> {
        let mut state = self.state.lock();
        if matches!(*state, State::Woken) {
            return Some(rest);
        }
        *state = State::Parked(rest);
        None
    }

    /// Queues `rest` for the end of the turn that this thread is in. Returns it outside a turn.
    pub fn resume_in_turn(self: &Arc<Self>, rest: Rest) -> Option<Rest> {
        TURN.with(|turn| match &mut *turn.borrow_mut() {
            Some(turn) => {
                turn.ready.push_back((Arc::clone(self), rest));
                None
            }
            None => Some(rest),
        })
    }

    fn schedule(self: &Arc<Self>, rest: Rest) {
        match (self.resume_in_turn(rest), self.outside) {
            (None, _) => {}
            (Some(rest), Outside::Host) => self.host.spawn(rest),
            (Some(rest), Outside::Waker) => {
                let _context = self.runtime.enter();
                self.resume(rest);
            }
        }
    }

    fn resume(self: &Arc<Self>, mut rest: Rest) {
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        loop {
            *self.state.lock() = State::Polled;
            // A panic ends the operation and not the thread.
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
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let before = std::mem::replace(&mut *self.state.lock(), State::Woken);
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

    /// Starts an operation that waits for two signals, and sends the thread on which it received each.
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
    async fn continues_here_in_a_turn_and_on_the_runtime_outside_one() {
        let here = thread::current().id();
        let ([first, second], result) = start_waiting(Outside::Host);
        turn(0, &Handle::current(), || {
            first.send(()).unwrap();
            // It continues only after the work that woke it.
            assert!(result.try_recv().is_err());
        });
        assert_eq!(result.try_recv(), Ok(here));
        second.send(()).unwrap();
        assert_ne!(result.recv(), Ok(here));
    }

    #[tokio::test]
    async fn continues_on_the_thread_that_wakes_it() {
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
    async fn a_wake_up_before_it_is_parked_is_not_lost() {
        let ([first, second], result) = start_waiting(Outside::Host);
        turn(0, &Handle::current(), || {
            first.send(()).unwrap();
            second.send(()).unwrap();
        });
        assert_eq!(result.iter().count(), 2);
    }

    #[tokio::test]
    async fn an_operation_that_wakes_itself_is_polled_again() {
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
    async fn a_panic_in_a_turn_loses_no_operation() {
        let ([first, second], result) = start_waiting(Outside::Host);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            turn(0, &Handle::current(), || {
                first.send(()).unwrap();
                panic!("on purpose");
            });
        }));
        assert!(panicked.is_err());
        second.send(()).unwrap();
        assert_eq!(result.iter().count(), 2);
    }

    #[tokio::test]
    async fn a_panic_ends_only_its_operation() {
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
