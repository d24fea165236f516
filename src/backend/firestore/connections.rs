//! Makes the connection on first use, shares it among all operations, and replaces it if it may be
//! broken. While the server is away, each operation keeps trying to connect for a limited time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firestore::gcloud_sdk::GoogleAuthMiddleware;
use firestore::gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::clock::ClockCheck;
use super::config::FirestoreConfig;
use super::dialer::Dialer;
use super::session::Session;
use crate::backend::Warnings;
use crate::backend::backoff::{is_away, keep_trying};
use crate::backend::unreachable::{gave_up_after, trying_for};
use crate::error::{Error, ErrorCode, Result};

pub(super) struct Connections {
    pub(super) config: Arc<FirestoreConfig>,
    pub(super) clock: ClockCheck,
    pub(super) dialer: Dialer,
    slot: Mutex<Option<Connecting>>,
    trouble: Mutex<Trouble>,
}

/// One attempt to connect, shared by all operations that need a connection meanwhile.
type Connecting = Shared<BoxFuture<'static, Result<Arc<Connection>>>>;

/// Why operations wait for a connection or its first answer.
#[derive(Default)]
struct Trouble {
    waiting: usize,
    since: Option<Instant>,
    last: Option<Error>,
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

impl Connections {
    pub(super) fn new(config: Arc<FirestoreConfig>, warnings: Warnings) -> Self {
        Self {
            clock: ClockCheck::new(warnings),
            dialer: Dialer::new(Arc::clone(&config)),
            config,
            slot: Mutex::default(),
            trouble: Mutex::default(),
        }
    }

    /// Starts an operation. Connects if there is no connection.
    pub(super) async fn session(&self) -> Result<Session<'_>> {
        let connection = self.connection().await?;
        Ok(Session::new(self, connection))
    }

    pub(super) async fn connection(&self) -> Result<Arc<Connection>> {
        self.connection_since(Instant::now()).await
    }

    /// Returns the connection. Keeps trying for `connectTimeoutMs` after `since`, when the operation
    /// first found none.
    pub(super) async fn connection_since(&self, since: Instant) -> Result<Arc<Connection>> {
        let _waiting = Waiting::enter(self);
        let patience = self
            .config
            .connect_timeout()
            .saturating_sub(since.elapsed());
        let attempt = || async {
            let attempted = self.attempt().await;
            self.trouble.lock().last = attempted.as_ref().err().cloned();
            attempted
        };
        keep_trying(patience, attempt, || self.dialer.timed_out())
            .await
            .map_err(|error| self.gave_up(error, since))
    }

    /// Adds to the error how long the operation tried, unless waiting could not have helped.
    pub(super) fn gave_up(&self, error: Error, since: Instant) -> Error {
        if is_away(&error) || error.code == ErrorCode::NetworkTimeout {
            gave_up_after(error, since.elapsed(), Some("connectTimeoutMs"))
        } else {
            error
        }
    }

    /// Takes part in the attempt to connect that is under way, or begins one.
    async fn attempt(&self) -> Result<Arc<Connection>> {
        loop {
            let mut has_begun = false;
            let begin = || {
                has_begun = true;
                let (dialer, limit) = (self.dialer.clone(), self.config.connect_timeout());
                let attempt = async move {
                    let dialed = timeout(limit, dialer.clone().dial()).await;
                    dialed.unwrap_or_else(|_| Err(dialer.timed_out()))
                };
                attempt.boxed().shared()
            };
            let connecting = self.slot.lock().get_or_insert_with(begin).clone();
            let connected = connecting.clone().await;
            let Err(error) = &connected else {
                return connected;
            };
            self.slot
                .lock()
                .take_if(|current| current.ptr_eq(&connecting));
            // An attempt that began before this operation times out before this operation has to.
            if has_begun || error.code != ErrorCode::NetworkTimeout {
                return connected;
            }
        }
    }

    /// Drops the connection, and its credentials, which may be why it failed. The next operation
    /// makes a new one.
    pub(super) fn abandon(&self, connection: &Arc<Connection>) {
        self.dialer.forget_credentials();
        connection.abandoned.cancel();
        self.slot.lock().take_if(|current| {
            matches!(current.peek(), Some(Ok(connected)) if Arc::ptr_eq(connected, connection))
        });
    }

    /// Counts an operation that waits for the first answer on this connection: a connection can be
    /// made to a server that never answers.
    pub(super) fn waits_for_first_answer(&self, connection: &Connection) -> Option<Waiting<'_>> {
        if connection.has_answered.load(Ordering::Relaxed) {
            return None;
        }
        let waiting = Waiting::enter(self);
        self.trouble.lock().last = Some(self.dialer.no_answer());
        Some(waiting)
    }

    /// Returns what currently keeps operations from being sent or answered.
    pub(super) fn obstacle(&self) -> Option<Error> {
        let trouble = self.trouble.lock();
        let since = trouble.since?;
        let error = trouble.last.clone();
        let error = error.unwrap_or_else(|| self.dialer.timed_out());
        Some(trying_for(error, since.elapsed()))
    }

    pub(super) fn close(&self) {
        self.slot.lock().take();
        self.dialer.forget_credentials();
    }
}

/// An operation that waits for a connection, or for the first answer on it.
pub(super) struct Waiting<'a>(&'a Connections);

impl<'a> Waiting<'a> {
    fn enter(connections: &'a Connections) -> Self {
        let mut trouble = connections.trouble.lock();
        trouble.waiting += 1;
        trouble.since.get_or_insert_with(Instant::now);
        Self(connections)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut trouble = self.0.trouble.lock();
        trouble.waiting -= 1;
        if trouble.waiting == 0 {
            *trouble = Trouble::default();
        }
    }
}
