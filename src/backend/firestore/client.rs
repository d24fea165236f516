//! The connection: made on first use, shared by all operations, replaced when it is in doubt.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use googleapis_tonic_google_firestore_v1::google::firestore::v1::firestore_client::FirestoreClient;
use hyper::header::HeaderValue;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

use super::auth::{AuthorizedChannel, Tokens, USER_AGENT, credentials, project_id, trusted_roots};
use super::clock::ClockCheck;
use super::config::FirestoreConfig;
use super::error::chain;
use super::session::Session;
use crate::backend::{Warnings, tls};
use crate::error::{Error, Result};

const KEEP_ALIVE: Duration = Duration::from_secs(60);

pub(super) struct Client {
    pub(super) config: Arc<FirestoreConfig>,
    pub(super) clock: ClockCheck,
    slot: Mutex<Option<Connecting>>,
}

/// Made by the first who needs it; all who come meanwhile wait for the same attempt.
type Connecting = Shared<BoxFuture<'static, Result<Arc<Connection>>>>;

pub(super) struct Connection {
    pub(super) client: FirestoreClient<AuthorizedChannel>,
    /// `projects/…/databases/…`
    pub(super) database: String,
    /// For messages.
    pub(super) place: String,
    /// It is in doubt and not used for anything new.
    pub(super) abandoned: CancellationToken,
}

impl Connection {
    pub(super) fn document_name(&self, collection: &str, id: &str) -> String {
        format!("{}/documents/{collection}/{id}", self.database)
    }
}

impl Client {
    pub(super) fn new(config: Arc<FirestoreConfig>, warnings: Warnings) -> Self {
        Self {
            config,
            clock: ClockCheck::new(warnings),
            slot: Mutex::default(),
        }
    }

    /// Connects if need be.
    pub(super) async fn session(&self) -> Result<Session<'_>> {
        let connection = self.connection().await?;
        Ok(Session {
            client: self,
            connection,
            deadline: Instant::now() + self.config.operation_timeout(),
        })
    }

    pub(super) async fn connection(&self) -> Result<Arc<Connection>> {
        let connecting = self
            .slot()
            .get_or_insert_with(|| connect(Arc::clone(&self.config)).boxed().shared())
            .clone();
        let connected = connecting.clone().await;
        if connected.is_err() {
            self.slot().take_if(|current| current.ptr_eq(&connecting));
        }
        connected
    }

    /// The next operation connects anew.
    pub(super) fn abandon(&self, connection: &Arc<Connection>) {
        connection.abandoned.cancel();
        self.slot().take_if(|current| {
            matches!(current.peek(), Some(Ok(connected)) if Arc::ptr_eq(connected, connection))
        });
    }

    /// What keeps operations from being sent, while it does.
    pub(super) fn obstacle(&self) -> Option<Error> {
        let connecting = self.slot().as_ref()?.peek().is_none();
        let project_id = self.config.project_id.as_deref();
        connecting.then(|| {
            Error::unavailable(format!(
                "There is no connection to {} yet",
                self.config.place(project_id)
            ))
        })
    }

    pub(super) fn close(&self) {
        self.slot().take();
    }

    fn slot(&self) -> MutexGuard<'_, Option<Connecting>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn connect(config: Arc<FirestoreConfig>) -> Result<Arc<Connection>> {
    let connecting = async {
        tls::install_provider();
        let credentials = credentials(&config).await?;
        let project_id = match &config.project_id {
            Some(project_id) => project_id.clone(),
            None => project_id().await.ok_or_else(|| {
                Error::invalid_argument(
                    "The Google Cloud project is not known: set projectId or GOOGLE_CLOUD_PROJECT",
                )
            })?,
        };
        let place = config.place(Some(&project_id));
        let channel = dial(&config).await.map_err(|error| {
            Error::unavailable(format!("{place} cannot be reached")).cause(chain(&error))
        })?;
        let database = format!("projects/{project_id}/databases/{}", config.database_id());
        let prefix = HeaderValue::try_from(&database)
            .map_err(|_| Error::invalid_argument("The project's id is malformed"))?;
        let channel = AuthorizedChannel::new(channel, Tokens::new(credentials), prefix);
        Ok(Arc::new(Connection {
            client: FirestoreClient::new(channel),
            database,
            place,
            abandoned: CancellationToken::new(),
        }))
    };
    let limit = config.connect_timeout();
    timeout(limit, connecting).await.unwrap_or_else(|_| {
        Err(Error::timeout(format!(
            "No connection to {} within {} ms",
            config.place(config.project_id.as_deref()),
            limit.as_millis()
        )))
    })
}

async fn dial(config: &FirestoreConfig) -> Result<Channel, tonic::transport::Error> {
    let mut endpoint = Endpoint::from_shared(config.url())?
        .user_agent(USER_AGENT)?
        .connect_timeout(config.connect_timeout())
        .tcp_keepalive(Some(KEEP_ALIVE))
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true);
    if !config.is_emulator() {
        let roots = trusted_roots().await.roots;
        endpoint = endpoint.tls_config(ClientTlsConfig::new().trust_anchors(roots))?;
    }
    endpoint.connect().await
}
