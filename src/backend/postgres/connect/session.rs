//! One connection to the server.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, Notification, SimpleQueryMessage, SimpleQueryRow,
    Socket,
};

use super::lane::{Lane, Mover};
use super::wire::Wire;
use crate::backend::postgres::error;
use crate::error::{Error, Result};
use crate::event_loop::EventLoop;

pub(super) type DriverResult<T> = Result<T, tokio_postgres::Error>;

/// Gets the notifications of a session, for as long as there is a connection.
pub(crate) type Ear = Box<dyn Fn(&Notification) + Send>;

/// Its fields are dropped in this order: without its client a connection ends properly.
pub(crate) struct Session {
    client: Client,
    /// What it is called in messages.
    server: Arc<str>,
    driver: Driver,
    waiting: AtomicBool,
    /// It is our own, with settings and prepared statements.
    pub(super) prepared: bool,
}

/// Who moves the bytes.
enum Driver {
    /// It ends by itself when the client is dropped and everything is answered.
    Task(JoinHandle<()>),
    Lane(Owned),
}

struct Owned(Arc<Lane>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.look();
        self.0.end();
    }
}

impl Session {
    pub(super) async fn connect<T>(
        config: &Config,
        tls: T,
        server: &Arc<str>,
        ear: Ear,
    ) -> DriverResult<Self>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let (client, connection) = config.connect(tls).await?;
        let mut mover = mover(connection, ear);
        let task = tokio::spawn(async move { poll_fn(|cx| mover(cx)).await });
        Ok(Self::new(client, server, Driver::Task(task)))
    }

    /// One that the event loop serves.
    pub(super) async fn connect_lane<T>(
        config: &Config,
        socket: TcpStream,
        tls: T,
        server: &Arc<str>,
        home: Arc<dyn EventLoop>,
    ) -> Result<Self>
    where
        T: TlsConnect<Wire>,
        T::Stream: Send + 'static,
    {
        let wire = Wire::new(socket);
        let connected = config.connect_raw(wire.clone(), tls).await;
        let (client, connection) = connected.map_err(|cause| error::from_driver(&cause, server))?;
        let socket = wire
            .leave_runtime()
            .map_err(|cause| Error::internal("The socket could not be moved").cause(cause))?;
        let lane = Lane::open(home, socket, wire, mover(connection, deaf()));
        Ok(Self::new(client, server, Driver::Lane(Owned(lane))))
    }

    fn new(client: Client, server: &Arc<str>, driver: Driver) -> Self {
        Self {
            client,
            server: Arc::clone(server),
            driver,
            waiting: AtomicBool::new(false),
            prepared: false,
        }
    }

    pub(crate) async fn run(&self, message: &str) -> DriverResult<Vec<SimpleQueryMessage>> {
        self.waiting.store(true, Ordering::Relaxed);
        let request = self.client.simple_query(message);
        let answer = match &self.driver {
            Driver::Task(_) => request.await,
            Driver::Lane(Owned(lane)) => lane.run(request).await,
        };
        self.waiting.store(false, Ordering::Relaxed);
        answer
    }

    /// As [`run`](Self::run), where it does not matter whether a request that failed took effect.
    pub(crate) async fn ask(&self, message: &str) -> Result<Vec<SimpleQueryRow>> {
        match self.run(message).await {
            Ok(answer) => Ok(rows_of(answer)),
            Err(cause) => Err(error::from_driver(&cause, &self.server)),
        }
    }

    pub(crate) fn is_prepared(&self) -> bool {
        self.prepared
    }

    /// Whether a request was not answered.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Notices that the server ended it. Only needed where nobody reads all the time.
    pub(crate) fn look(&self) {
        if let Driver::Lane(Owned(lane)) = &self.driver {
            lane.look();
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Given up in the middle of a request it waits for no answer: none may ever come.
        if let Driver::Task(task) = &self.driver
            && *self.waiting.get_mut()
        {
            task.abort();
        }
    }
}

fn mover<S, T>(mut connection: Connection<S, T>, ear: Ear) -> Mover
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    Box::new(move |cx| {
        // Its error is the error of the request that is waiting.
        while let Some(Ok(message)) = ready!(connection.poll_message(cx)) {
            if let AsyncMessage::Notification(notification) = message {
                ear(&notification);
            }
        }
        Poll::Ready(())
    })
}

/// What the sessions of the pool hear is not for them: they may share one with others.
pub(crate) fn deaf() -> Ear {
    Box::new(|_| {})
}

pub(crate) fn rows_of(answer: Vec<SimpleQueryMessage>) -> Vec<SimpleQueryRow> {
    answer
        .into_iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        })
        .collect()
}

/// The first value of the answer.
pub(crate) fn first_of(rows: &[SimpleQueryRow]) -> Option<&str> {
    rows.first()?.try_get(0).ok()?
}
