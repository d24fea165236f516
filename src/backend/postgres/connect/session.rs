//! One connection to the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinHandle;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, SimpleQueryMessage, Socket};

use crate::backend::postgres::error;
use crate::error::{Error, Result};

pub(super) type DriverResult<T> = Result<T, tokio_postgres::Error>;

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
    pub(super) async fn connect<T>(config: &Config, tls: T, server: &Arc<str>) -> DriverResult<Self>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let (client, connection) = config.connect(tls).await?;
        let task = tokio::spawn(async move {
            // Its error is the error of the request that is waiting.
            let _ = connection.await;
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

    /// What an error of [`run`](Self::run) means, where it matters not whether the request was sent.
    pub(crate) fn explain(&self, cause: &tokio_postgres::Error) -> Error {
        error::from_driver(cause, &self.server)
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
