//! In place of the library's `sync`.

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

/// Runs the task as a thread of the model.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(shuttle::future::spawn(task));
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
