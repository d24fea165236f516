//! The connection and the three calls that are made on it. Every call has a deadline.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firestore::gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use firestore::gcloud_sdk::google::firestore::v1::structured_query::field_filter::Operator;
use firestore::gcloud_sdk::google::firestore::v1::structured_query::filter::FilterType;
use firestore::gcloud_sdk::google::firestore::v1::structured_query::{
    CollectionSelector, FieldFilter, FieldReference, Filter,
};
use firestore::gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, CommitRequest, RunQueryRequest, StructuredQuery, Write,
    batch_get_documents_response, run_query_request,
};
use firestore::gcloud_sdk::prost_types::Timestamp;
use firestore::gcloud_sdk::{GoogleAuthMiddleware, GoogleEnvironment};
use firestore::{FirestoreDb, FirestoreDbOptions};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::{Request, Status};

use super::clock::ClockCheck;
use super::config::FirestoreConfig;
use super::credentials::credentials;
use super::document::{Snapshot, text};
use super::error::{Failure, chain, commit_failure, read_failure};
use crate::backend::{Warnings, tls};
use crate::error::{Error, Result};
use crate::lock::LockId;
use crate::lock::time::system_now_ms;

/// The server hears of the deadline too, a little late: what it then says came from itself.
const SERVER_GRACE: Duration = Duration::from_secs(1);
/// More documents than this with one lockId are dealt with bit by bit.
const MAX_DUPLICATES: i32 = 100;

pub struct Client {
    config: Arc<FirestoreConfig>,
    clock: ClockCheck,
    slot: Mutex<Option<Connecting>>,
}

/// Made by the first who needs it; all who come meanwhile wait for the same attempt.
type Connecting = Shared<BoxFuture<'static, Result<Arc<Connection>>>>;

pub struct Connection {
    client: FirestoreClient<GoogleAuthMiddleware>,
    /// `projects/…/databases/…`
    database: String,
}

impl Connection {
    pub fn document_name(&self, collection: &str, id: &str) -> String {
        format!("{}/documents/{collection}/{id}", self.database)
    }
}

/// One operation: its connection and when it must be over.
pub struct Session<'a> {
    client: &'a Client,
    pub connection: Arc<Connection>,
    pub deadline: Instant,
}

impl Client {
    pub fn new(config: Arc<FirestoreConfig>, warnings: Warnings) -> Self {
        Self {
            config,
            clock: ClockCheck::new(warnings),
            slot: Mutex::default(),
        }
    }

    /// Connects if need be.
    pub async fn session(&self) -> Result<Session<'_>> {
        let connecting = self
            .slot()
            .get_or_insert_with(|| connect(Arc::clone(&self.config)).boxed().shared())
            .clone();
        let connected = connecting.clone().await;
        if connected.is_err() {
            self.slot().take_if(|current| current.ptr_eq(&connecting));
        }
        Ok(Session {
            client: self,
            connection: connected?,
            deadline: Instant::now() + self.config.operation_timeout(),
        })
    }

    /// The next operation connects anew.
    fn abandon(&self, connection: &Arc<Connection>) {
        self.slot().take_if(|current| {
            matches!(current.peek(), Some(Ok(connected)) if Arc::ptr_eq(connected, connection))
        });
    }

    pub fn close(&self) {
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
        let options = FirestoreDbOptions::new(project_id)
            .with_database_id(config.database_id().to_owned())
            .with_firebase_api_url(config.url());
        let db = FirestoreDb::with_options_auth(options, credentials)
            .await
            .map_err(|error| {
                Error::unavailable("Firestore cannot be reached").cause(chain(&error))
            })?;
        Ok(Arc::new(Connection {
            client: db.client().get(),
            database: db.get_database_path().clone(),
        }))
    };
    let limit = config.connect_timeout();
    timeout(limit, connecting).await.unwrap_or_else(|_| {
        Err(Error::timeout(format!(
            "No connection to Firestore within {} ms",
            limit.as_millis()
        )))
    })
}

impl Session<'_> {
    /// The documents with these names, in this order, as they are now.
    pub async fn read<const N: usize>(&self, names: [&str; N]) -> Result<[Snapshot; N], Failure> {
        let request = self.request(BatchGetDocumentsRequest {
            database: self.connection.database.clone(),
            documents: names.map(str::to_owned).to_vec(),
            mask: None,
            request_options: None,
            consistency_selector: None,
        });
        let mut client = self.connection.client.clone();
        let mut snapshots = names.map(|name| Snapshot::missing(name.to_owned()));
        let sent_ms = system_now_ms();
        let call = async {
            let mut answers = client.batch_get_documents(request).await?.into_inner();
            while let Some(answer) = answers.message().await? {
                let read_time = answer.read_time.as_ref();
                self.client
                    .clock
                    .observe(sent_ms, read_time, system_now_ms());
                if let Some(batch_get_documents_response::Result::Found(found)) = answer.result {
                    let wanted = snapshots
                        .iter_mut()
                        .find(|wanted| wanted.name == found.name);
                    if let Some(wanted) = wanted {
                        *wanted = Snapshot::found(found);
                    }
                }
            }
            Ok(())
        };
        match self.bounded(call).await {
            Some(Ok(())) => Ok(snapshots),
            Some(Err(status)) => Err(read_failure(&status)),
            None => Err(self.timed_out().into()),
        }
    }

    /// All lock documents with this lockId: one, unless something went wrong.
    pub async fn find(&self, collection: &str, lock_id: LockId) -> Result<Vec<Snapshot>, Failure> {
        let request = self.request(RunQueryRequest {
            parent: format!("{}/documents", self.connection.database),
            query_type: Some(run_query_request::QueryType::StructuredQuery(
                lock_id_query(collection, lock_id),
            )),
            ..RunQueryRequest::default()
        });
        let mut client = self.connection.client.clone();
        let mut found = Vec::new();
        let sent_ms = system_now_ms();
        let call = async {
            let mut answers = client.run_query(request).await?.into_inner();
            while let Some(answer) = answers.message().await? {
                let read_time = answer.read_time.as_ref();
                self.client
                    .clock
                    .observe(sent_ms, read_time, system_now_ms());
                found.extend(answer.document.map(Snapshot::found));
            }
            Ok(())
        };
        match self.bounded(call).await {
            Some(Ok(())) => Ok(found),
            Some(Err(status)) => Err(read_failure(&status)),
            None => Err(self.timed_out().into()),
        }
    }

    /// All writes or none; the new version of each document.
    pub async fn commit(&self, writes: Vec<Write>) -> Result<Vec<Option<Timestamp>>, Failure> {
        let request = self.request(CommitRequest {
            database: self.connection.database.clone(),
            writes,
            transaction: Vec::new(),
            request_options: None,
        });
        let mut client = self.connection.client.clone();
        let sent_ms = system_now_ms();
        match self.bounded(client.commit(request)).await {
            Some(Ok(answer)) => {
                let answer = answer.into_inner();
                let commit_time = answer.commit_time.as_ref();
                self.client
                    .clock
                    .observe(sent_ms, commit_time, system_now_ms());
                let results = answer.write_results.into_iter();
                Ok(results.map(|result| result.update_time).collect())
            }
            Some(Err(status)) => Err(commit_failure(&status)),
            None => Err(self.timed_out().outcome_unknown().into()),
        }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let left = self.deadline.saturating_duration_since(Instant::now());
        request.set_timeout(left + SERVER_GRACE);
        request
    }

    /// `None` when the operation's time is over. The connection may be a dead one that nobody
    /// told us of, so it is not used again.
    async fn bounded<T>(
        &self,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Option<Result<T, Status>> {
        let answer = timeout_at(self.deadline, call).await.ok();
        let refused = |status: &Status| {
            status.code() == tonic::Code::Unauthenticated
                || std::error::Error::source(status).is_some()
        };
        if answer
            .as_ref()
            .is_none_or(|answer| answer.as_ref().is_err_and(refused))
        {
            self.client.abandon(&self.connection);
        }
        answer
    }

    fn timed_out(&self) -> Error {
        Error::timeout(format!(
            "Firestore did not answer within {} ms",
            self.client.config.operation_timeout_ms
        ))
    }
}

fn lock_id_query(collection: &str, lock_id: LockId) -> StructuredQuery {
    StructuredQuery {
        from: vec![CollectionSelector {
            collection_id: collection.to_owned(),
            all_descendants: false,
        }],
        r#where: Some(Filter {
            filter_type: Some(FilterType::FieldFilter(FieldFilter {
                field: Some(FieldReference {
                    field_path: "lockId".to_owned(),
                }),
                op: Operator::Equal as i32,
                value: Some(text(lock_id.as_str())),
            })),
        }),
        limit: Some(MAX_DUPLICATES),
        ..StructuredQuery::default()
    }
}
