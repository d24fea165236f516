//! Runs the future that moves bytes for a connection on whichever thread has something for it to
//! do: the I/O thread when the socket is ready, and the caller's when it has just queued a request.
//! So a request is written before the call returns, and no other thread is woken for it.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::poll_fn;
use futures_util::task::AtomicWaker;

type Io = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) struct Driver {
    /// Nothing when it has ended.
    io: Mutex<Option<Io>>,
    /// The task that runs on the I/O thread.
    task: AtomicWaker,
}

thread_local! {
    /// The driver that this thread is about to run: it need not be woken.
    static ABOUT_TO_RUN: Cell<*const Driver> = const { Cell::new(std::ptr::null()) };
}

impl Driver {
    pub(crate) fn new(io: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            io: Mutex::new(Some(Box::pin(io))),
            task: AtomicWaker::new(),
        })
    }

    /// To be spawned: ends with the connection.
    pub(crate) async fn run(self: &Arc<Self>) {
        poll_fn(|context| {
            self.task.register(context.waker());
            self.turn(self.lock())
        })
        .await;
    }

    /// Drops the connection.
    pub(crate) fn end(&self) {
        *self.lock() = None;
        self.task.wake();
    }

    /// Polls `request`, which queues itself, and then writes what is queued.
    pub(crate) fn start<F: Future>(
        self: &Arc<Self>,
        request: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        let polled = {
            let _about_to_run = AboutToRun::new(self);
            request.poll(context)
        };
        match self.io.try_lock() {
            Ok(io) => {
                if self.turn(io).is_ready() {
                    self.task.wake();
                }
            }
            // The I/O thread runs it, but may be past the queue.
            Err(TryLockError::WouldBlock) => self.task.wake(),
            Err(TryLockError::Poisoned(io)) => {
                *io.into_inner() = None;
                self.task.wake();
            }
        }
        polled
    }

    fn turn(self: &Arc<Self>, mut io: MutexGuard<'_, Option<Io>>) -> Poll<()> {
        let Some(running) = io.as_mut() else {
            return Poll::Ready(());
        };
        // Whoever runs it, it is the task that is woken when there is more to do.
        let waker = Waker::from(Arc::clone(self));
        let polled = running.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            *io = None;
        }
        polled
    }

    fn lock(&self) -> MutexGuard<'_, Option<Io>> {
        self.io.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends with its scope, also by a panic.
struct AboutToRun;

impl AboutToRun {
    fn new(driver: &Arc<Driver>) -> Self {
        ABOUT_TO_RUN.set(Arc::as_ptr(driver));
        Self
    }
}

impl Drop for AboutToRun {
    fn drop(&mut self) {
        ABOUT_TO_RUN.set(std::ptr::null());
    }
}

impl Wake for Driver {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if ABOUT_TO_RUN.get() != Arc::as_ptr(self) {
            self.task.wake();
        }
    }
}
