//! Makes the connection on first use, shares it among all operations, and replaces it if it may be
//! broken. While the server is away, each operation keeps trying to connect for a limited time.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use firestore::gcloud_sdk::GoogleAuthMiddleware;
use firestore::gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::clock::ClockCheck;
use super::config::FirestoreConfig;
use crate::backend::Warnings;
use crate::backend::backoff::{is_away, keep_trying};
use crate::backend::unreachable::{Reason, gave_up_after, trying_for};
use crate::error::{Error, ErrorCode, Result};

pub(super) struct Connections {
    pub(super) config: Arc<FirestoreConfig>,
    pub(super) clock: ClockCheck,
    /// The project, once it is known.
    pub(super) project: OnceLock<String>,
    current: Mutex<Option<Arc<Connection>>>,
    /// Locked by the operation that connects, while the others wait for it.
    connecting: tokio::sync::Mutex<()>,
    pub(super) trouble: Arc<Mutex<Trouble>>,
}

pub(super) struct Connection {
    pub(super) client: FirestoreClient<GoogleAuthMiddleware>,
    /// `projects/…/databases/…`
    pub(super) database: String,
    /// Whether the server ever answered, so that it is known to speak Firestore's protocol.
    pub(super) has_answered: AtomicBool,
    /// Cancelled if the connection may be broken: it gets no new requests.
    pub(super) abandoned: CancellationToken,
}

impl Connection {
    pub(super) fn document_name(&self, collection: &str, id: &str) -> String {
        format!("{}/documents/{collection}/{id}", self.database)
    }
}

/// Why operations wait for a connection or its first answer.
#[derive(Default)]
pub(super) struct Trouble {
    waiting: usize,
    since: Option<Instant>,
    /// Why the last attempt to connect failed.
    failure: Option<Error>,
    /// The step that the present attempt has reached.
    pub(super) step: Step,
}

#[derive(Clone, Copy, Default)]
pub(super) enum Step {
    Token,
    #[default]
    Connecting,
    /// The TCP connection is made: the TLS handshake or the first answer is next.
    Connected,
}

impl Connections {
    pub(super) fn new(config: Arc<FirestoreConfig>, warnings: Warnings) -> Self {
        let project = config.project_id.clone();
        Self {
            config,
            clock: ClockCheck::new(warnings),
            project: project.map_or_else(OnceLock::new, OnceLock::from),
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            trouble: Arc::default(),
        }
    }

    /// Names the server and the project in messages.
    pub(super) fn place(&self) -> String {
        self.config.place(self.project.get().map(String::as_str))
    }

    /// Returns the connection. Keeps trying for `connectTimeoutMs` after `since`, when the operation
    /// first found none.
    pub(super) async fn connection_since(&self, since: Instant) -> Result<Arc<Connection>> {
        if let Some(connection) = self.usable() {
            return Ok(connection);
        }
        let _waiting = self.wait();
        let connecting = async {
            let _turn = self.connecting.lock().await;
            if let Some(connection) = self.usable() {
                return Ok(connection);
            }
            // The credentials may be why the last connection failed, so they are read again.
            let authorized = self.keep_trying(|| self.authorize()).await?;
            let channel = self.keep_trying(|| self.dial()).await?;
            let connection = Arc::new(authorized.connect(channel));
            *self.current.lock() = Some(Arc::clone(&connection));
            Ok(connection)
        };
        let limit = since + self.config.connect_timeout();
        let connected = timeout_at(limit, connecting).await;
        connected
            .unwrap_or_else(|_| Err(self.why_waiting()))
            .map_err(|error| self.gave_up(error, since))
    }

    fn usable(&self) -> Option<Arc<Connection>> {
        let current = self.current.lock().clone();
        current.filter(|connection| !connection.abandoned.is_cancelled())
    }

    async fn keep_trying<T, F>(&self, mut attempt: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let attempt = || {
            let attempt = attempt();
            async {
                let attempted = attempt.await;
                self.trouble.lock().failure = attempted.as_ref().err().cloned();
                attempted
            }
        };
        let patience = self.config.connect_timeout();
        keep_trying(patience, attempt, || self.why_waiting()).await
    }

    /// Adds to the error how long the operation tried, unless waiting could not have helped.
    pub(super) fn gave_up(&self, error: Error, since: Instant) -> Error {
        if is_away(&error) || error.code == ErrorCode::NetworkTimeout {
            gave_up_after(error, since.elapsed(), Some("connectTimeoutMs"))
        } else {
            error
        }
    }

    /// Returns what currently keeps operations from being sent or answered.
    pub(super) fn obstacle(&self) -> Option<Error> {
        let since = self.trouble.lock().since?;
        Some(trying_for(self.why_waiting(), since.elapsed()))
    }

    fn why_waiting(&self) -> Error {
        let (failure, step) = {
            let trouble = self.trouble.lock();
            (trouble.failure.clone(), trouble.step)
        };
        let place = self.place();
        failure.unwrap_or_else(|| match step {
            Step::Token => Error::timeout(format!(
                "No access token for {place}: the server that gives them out did not answer in time. Check the network, and the proxies of HTTPS_PROXY"
            )),
            Step::Connecting => self.peer(&place).error(Reason::TimedOut),
            Step::Connected => self.peer(&place).error(Reason::Silent),
        })
    }

    /// Counts an operation that waits for a connection.
    fn wait(&self) -> Waiting<'_> {
        let mut trouble = self.trouble.lock();
        trouble.waiting += 1;
        trouble.since.get_or_insert_with(Instant::now);
        Waiting(self)
    }

    /// Counts an operation that waits for this step of a new connection.
    pub(super) fn wait_in(&self, step: Step) -> Waiting<'_> {
        let waiting = self.wait();
        let mut trouble = self.trouble.lock();
        trouble.step = step;
        trouble.failure = None;
        waiting
    }

    pub(super) fn close(&self) {
        self.current.lock().take();
    }
}

/// An operation that waits for a connection, or for the first answer on it.
pub(super) struct Waiting<'a>(&'a Connections);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut trouble = self.0.trouble.lock();
        trouble.waiting -= 1;
        if trouble.waiting == 0 {
            *trouble = Trouble::default();
        }
    }
}
