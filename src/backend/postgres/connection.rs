//! One connection to the server.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{
    AsyncMessage, Client, Config, Notification, SimpleQueryMessage, SimpleQueryRow, Socket,
};

use super::error;
use super::sql::Session;
use crate::error::Result;

pub(crate) type DriverResult<T> = Result<T, tokio_postgres::Error>;

/// Is called with each notification that a connection receives, and dropped when it ends.
pub(crate) type NotificationHandler = Box<dyn Fn(&Notification) + Send>;

pub(crate) struct Connection {
    /// The driver's handle. The connection ends once this is dropped and all requests are answered.
    client: Client,
    /// The server's name in messages.
    server: Arc<str>,
    io: Arc<Io>,
    io_task: JoinHandle<()>,
    awaits_answer: AtomicBool,
    pub(super) session: Session,
}

impl Connection {
    pub(super) async fn open<T>(
        config: &Config,
        tls: T,
        server: &Arc<str>,
        on_notification: NotificationHandler,
    ) -> DriverResult<Self>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let (client, connection) = config.connect(tls).await?;
        let io = Arc::new(Io::new(connection, on_notification));
        let polled_by_task = Arc::clone(&io);
        let io_task = tokio::spawn(poll_fn(move |cx| {
            polled_by_task.wakeups.task.register(cx.waker());
            polled_by_task.poll()
        }));
        Ok(Self {
            client,
            server: Arc::clone(server),
            io,
            io_task,
            awaits_answer: AtomicBool::new(false),
            session: Session::default(),
        })
    }

    /// Sends the statements of `message` and waits for the answer.
    pub(super) async fn run(&self, message: &str) -> DriverResult<Vec<SimpleQueryMessage>> {
        self.awaits_answer.store(true, Ordering::Relaxed);
        let mut request = pin!(self.client.simple_query(message));
        let first_poll = poll_fn(|cx| Poll::Ready(self.io.send(|| request.as_mut().poll(cx))));
        let answer = match first_poll.await {
            Poll::Ready(answer) => answer,
            Poll::Pending => request.await,
        };
        self.awaits_answer.store(false, Ordering::Relaxed);
        answer
    }

    /// Like [`run`](Self::run), for statements of which it does not matter whether they took effect
    /// when they fail. Returns the rows.
    pub(super) async fn query(&self, message: &str) -> Result<Vec<SimpleQueryRow>> {
        match self.run(message).await {
            Ok(answer) => Ok(rows_of(answer)),
            Err(cause) => Err(error::from_driver(&cause, &self.server)),
        }
    }

    /// Whether a request was given up before its answer arrived.
    pub(super) fn awaits_answer(&self) -> bool {
        self.awaits_answer.load(Ordering::Relaxed)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The answer to a request that was given up may never come, and the driver waits for it.
        if *self.awaits_answer.get_mut() {
            self.io_task.abort();
        }
    }
}

/// The driver's reading and writing. A task polls it whenever the socket is ready.
///
/// A caller also polls it once, right after it made a request. The request is then written on the
/// caller's thread. Waking the task to do that would take a good part of the time that the server
/// needs to answer.
struct Io {
    /// None once the connection has ended.
    poll: Mutex<Option<PollIo>>,
    wakeups: Arc<Wakeups>,
    waker: Waker,
}

/// Reads and writes what is possible without waiting. Ready when the connection has ended.
type PollIo = Box<dyn FnMut(&mut Context<'_>) -> Poll<()> + Send>;

/// Receives the wake-ups of [`Io`].
struct Wakeups {
    task: AtomicWaker,
    /// A caller polls next, and wakes the task if anything is left to do afterwards.
    caller_polls: AtomicBool,
    woken: AtomicBool,
}

impl Io {
    fn new<S, T>(
        mut connection: tokio_postgres::Connection<S, T>,
        on_notification: NotificationHandler,
    ) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let wakeups = Arc::new(Wakeups {
            task: AtomicWaker::new(),
            caller_polls: AtomicBool::new(false),
            woken: AtomicBool::new(false),
        });
        let poll: PollIo = Box::new(move |cx| {
            // A request that is waiting for its answer gets the error.
            while let Some(Ok(message)) = ready!(connection.poll_message(cx)) {
                if let AsyncMessage::Notification(notification) = message {
                    on_notification(&notification);
                }
            }
            Poll::Ready(())
        });
        Self {
            poll: Mutex::new(Some(poll)),
            waker: Waker::from(Arc::clone(&wakeups)),
            wakeups,
        }
    }

    fn poll(&self) -> Poll<()> {
        let mut slot = self.poll.lock();
        let Some(poll) = slot.as_mut() else {
            return Poll::Ready(());
        };
        let polled = poll(&mut Context::from_waker(&self.waker));
        if polled.is_ready() {
            *slot = None;
        }
        polled
    }

    /// Calls `make_request` and writes the request on this thread.
    fn send<T>(&self, make_request: impl FnOnce() -> T) -> T {
        let Wakeups {
            task,
            caller_polls,
            woken,
        } = &*self.wakeups;
        caller_polls.store(true, Ordering::SeqCst);
        let made = make_request();
        woken.store(false, Ordering::SeqCst);
        let is_over = self.poll().is_ready();
        caller_polls.store(false, Ordering::SeqCst);
        if is_over || woken.load(Ordering::SeqCst) {
            task.wake();
        }
        made
    }
}

impl Wake for Wakeups {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if !self.caller_polls.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

/// For the connections of the pool: several backends may share one behind a pooler, so what arrives
/// there may be meant for another.
pub(super) fn ignore_notifications() -> NotificationHandler {
    Box::new(|_| {})
}

pub(super) fn rows_of(answer: Vec<SimpleQueryMessage>) -> Vec<SimpleQueryRow> {
    answer
        .into_iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        })
        .collect()
}

/// The first column of the first row.
pub(super) fn first_of(rows: &[SimpleQueryRow]) -> Option<&str> {
    rows.first()?.try_get(0).ok()?
}
