//! One connection to the server.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinHandle;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{
    AsyncMessage, Client, Config, Notification, SimpleQueryMessage, SimpleQueryRow, Socket,
};

use crate::backend::postgres::error;
use crate::error::Result;

pub(super) type DriverResult<T> = Result<T, tokio_postgres::Error>;

/// Gets the notifications of a session, for as long as there is a connection.
pub(crate) type Ear = Box<dyn Fn(&Notification) + Send>;

pub(crate) struct Session {
    client: Client,
    /// What it is called in messages.
    server: Arc<str>,
    /// Moves the bytes. It ends by itself when the client is dropped and everything is answered.
    task: JoinHandle<()>,
    waiting: AtomicBool,
    /// It is our own, with settings and prepared statements.
    pub(super) prepared: bool,
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
        let (client, mut connection) = config.connect(tls).await?;
        let task = tokio::spawn(async move {
            // Its error is the error of the request that is waiting.
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(notification) = message {
                    ear(&notification);
                }
            }
        });
        Ok(Self {
            client,
            server: Arc::clone(server),
            task,
            waiting: AtomicBool::new(false),
            prepared: false,
        })
    }

    pub(crate) async fn run(&self, message: &str) -> DriverResult<Vec<SimpleQueryMessage>> {
        self.waiting.store(true, Ordering::Relaxed);
        let answer = self.client.simple_query(message).await;
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

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}

/// A session that was given up in the middle of a request waits for no answer: none may ever come.
impl Drop for Session {
    fn drop(&mut self) {
        if *self.waiting.get_mut() {
            self.task.abort();
        }
    }
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
