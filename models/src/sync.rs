//! In place of the library's `sync`.

use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Duration;

pub(crate) use shuttle::sync::MutexGuard;
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicUsize};
pub(crate) use shuttle::thread_local;

/// A mutex that cannot be poisoned, like that of the library.
#[derive(Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

/// Time has no meaning here: others may go first, that is all.
pub(crate) async fn sleep(_pause: Duration) {
    shuttle::future::yield_now().await;
}

/// A runtime that nothing needs.
#[derive(Clone, Default)]
pub struct Handle;

pub struct Entered;

impl Handle {
    pub fn enter(&self) -> Entered {
        Entered
    }
}

/// What it is about to tell, nobody here listens to.
#[derive(Clone)]
pub(crate) struct CancellationToken;

impl CancellationToken {
    pub(crate) fn cancel(&self) {}
}

/// As tokio's, for one that waits.
#[derive(Default)]
pub(crate) struct Notify(Mutex<Notified>);

#[derive(Default)]
struct Notified {
    is_due: bool,
    waiting: Option<Waker>,
}

impl Notify {
    pub(crate) fn notify_one(&self) {
        let waiting = {
            let mut notified = self.0.lock();
            notified.is_due = true;
            notified.waiting.take()
        };
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    pub(crate) async fn notified(&self) {
        poll_fn(|context| {
            let mut notified = self.0.lock();
            if std::mem::take(&mut notified.is_due) {
                return Poll::Ready(());
            }
            notified.waiting = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
