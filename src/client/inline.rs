//! Goes on with a task on the very thread that completes what it waits for.
//!
//! A backend with threads of its own then answers JavaScript from there; a detour through the
//! runtime's threads would take longer than a short operation itself. Only for tasks that whoever
//! wakes them may run: quick ones, that take no lock the waker could hold.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

struct Task {
    /// `None` when it is done.
    future: Mutex<Option<BoxFuture<'static, ()>>>,
    /// Wake-ups since nobody was polling. Who adds the first one polls, also for the others.
    wakes: AtomicUsize,
    runtime: Handle,
}

pub fn run(runtime: Handle, future: impl Future<Output = ()> + Send + 'static) {
    let task = Task {
        future: Mutex::new(Some(Box::pin(future))),
        wakes: AtomicUsize::new(0),
        runtime,
    };
    Arc::new(task).wake();
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if self.wakes.fetch_add(1, Ordering::AcqRel) != 0 {
            return;
        }
        let _context = self.runtime.enter();
        let waker = Waker::from(Arc::clone(&self));
        let mut context = Context::from_waker(&waker);
        loop {
            let seen = self.wakes.load(Ordering::Acquire);
            // Held by nobody else: only one thread at a time gets here.
            let mut slot = self.future.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(future) = slot.as_mut() else { return };
            // A panic must not end the thread of a backend.
            let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
            if !matches!(polled, Ok(Poll::Pending)) {
                *slot = None;
                return;
            }
            drop(slot);
            let idle = self
                .wakes
                .compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire);
            if idle.is_ok() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn goes_on_where_it_is_woken() {
        let (answer, answered) = oneshot::channel();
        let (done, result) = mpsc::channel();
        run(Handle::current(), async move {
            answered.await.unwrap();
            done.send(thread::current().id()).unwrap();
        });
        assert!(result.try_recv().is_err());
        let other = thread::spawn(move || {
            answer.send(()).unwrap();
            thread::current().id()
        });
        assert_eq!(other.join().unwrap(), result.recv().unwrap());
    }

    #[tokio::test]
    async fn a_task_that_wakes_itself_is_polled_again() {
        let (done, result) = oneshot::channel();
        run(Handle::current(), async move {
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

    /// Wake-ups of one thread while another one polls are not lost.
    #[tokio::test]
    async fn no_wake_up_is_lost() {
        let (numbers, mut incoming) = tokio::sync::mpsc::unbounded_channel();
        let (done, result) = oneshot::channel();
        run(Handle::current(), async move {
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

    #[tokio::test]
    async fn a_panic_stays_in_the_task() {
        let (done, result) = oneshot::channel::<()>();
        run(Handle::current(), async move {
            let _done = done;
            panic!("on purpose");
        });
        assert!(result.await.is_err());
    }
}
