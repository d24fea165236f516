//! The connection: made on first use, shared by all operations, replaced when it is in doubt.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firestore::gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use firestore::gcloud_sdk::{GoogleAuthMiddleware, GoogleEnvironment};
use firestore::{FirestoreDb, FirestoreDbOptions};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::clock::ClockCheck;
use super::config::FirestoreConfig;
use super::credentials::credentials;
use super::error::chain;
use super::session::Session;
use crate::backend::{Warnings, tls};
use crate::error::{Error, Result};

pub(super) struct Client {
    pub(super) config: Arc<FirestoreConfig>,
    pub(super) clock: ClockCheck,
    slot: Mutex<Option<Connecting>>,
}

/// Made by the first who needs it; all who come meanwhile wait for the same attempt.
type Connecting = Shared<BoxFuture<'static, Result<Arc<Connection>>>>;

pub(super) struct Connection {
    pub(super) client: FirestoreClient<GoogleAuthMiddleware>,
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
            None => GoogleEnvironment::detect_google_project_id()
                .await
                .ok_or_else(|| {
                    Error::invalid_argument(
                        "The Google Cloud project is not known: set projectId or GOOGLE_CLOUD_PROJECT",
                    )
                })?,
        };
        let place = config.place(Some(&project_id));
        let options = FirestoreDbOptions::new(project_id)
            .with_database_id(config.database_id().to_owned())
            .with_firebase_api_url(config.url());
        let db = FirestoreDb::with_options_auth(options, credentials)
            .await
            .map_err(|error| {
                Error::unavailable(format!("{place} cannot be reached")).cause(chain(&error))
            })?;
        Ok(Arc::new(Connection {
            client: db.client().get(),
            database: db.get_database_path().clone(),
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
