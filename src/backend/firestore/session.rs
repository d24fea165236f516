//! Makes the calls of one operation, each with a deadline.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firestore::gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, CommitRequest, RunQueryRequest, StructuredQuery, Write,
    batch_get_documents_response, run_query_request,
};
use parking_lot::Mutex;
use prost_types::Timestamp;
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Request, Status};

use super::connections::{Connection, Connections};
use super::error::{Broken, Failure, Kind, lock_error, no_token, server_failure};
use super::format::Snapshot;
use crate::backend::backoff::Backoff;
use crate::backend::unreachable::{Reason, chain};
use crate::error::{Error, Result};
use crate::lock::time::system_now_ms;

/// How much later than ours the deadline is that the server is told. So a `DEADLINE_EXCEEDED` is the
/// server's own.
const SERVER_GRACE: Duration = Duration::from_secs(1);

/// One operation, with its connection and its deadline.
pub(super) struct Session<'a> {
    connections: &'a Connections,
    state: Mutex<State>,
}

struct State {
    connection: Arc<Connection>,
    deadline: Instant,
    /// When this operation first found the server away.
    away_since: Option<Instant>,
    backoff: Option<Backoff>,
}

impl<'a> Session<'a> {
    pub(super) fn new(connections: &'a Connections, connection: Arc<Connection>) -> Self {
        Self {
            connections,
            state: Mutex::new(State {
                connection,
                deadline: Instant::now() + connections.config.operation_timeout(),
                away_since: None,
                backoff: None,
            }),
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.state.lock().deadline
    }

    pub(super) fn document_name(&self, collection: &str, id: &str) -> String {
        self.connection().document_name(collection, id)
    }

    /// Names the server and the project in messages.
    pub(super) fn place(&self) -> String {
        self.connections.dialer.place()
    }

    /// Waits until the server is back, and extends the deadline by that time. Returns an error if the
    /// server stays away for longer than `connectTimeoutMs`.
    pub(super) async fn reconnect(&self, error: Error) -> Result<()> {
        let started = Instant::now();
        let patience = self.connections.config.connect_timeout();
        let (since, mut backoff) = {
            let mut state = self.state.lock();
            let since = *state.away_since.get_or_insert(started);
            (since, state.backoff.take())
        };
        let backoff = backoff.get_or_insert_with(|| Backoff::new(patience));
        if timeout_at(since + patience, backoff.wait()).await.is_err() {
            return Err(self.connections.gave_up(error, since));
        }
        let connection = self.connections.connection_since(since).await?;
        let mut state = self.state.lock();
        state.connection = connection;
        state.deadline += started.elapsed();
        Ok(())
    }

    fn connection(&self) -> Arc<Connection> {
        Arc::clone(&self.state.lock().connection)
    }
}

impl Session<'_> {
    /// Reads the documents with these names. The result has the same order.
    pub(super) async fn read<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<[Snapshot; N], Failure> {
        let connection = self.connection();
        let request = self.request(BatchGetDocumentsRequest {
            database: connection.database.clone(),
            documents: names.map(str::to_owned).to_vec(),
            ..BatchGetDocumentsRequest::default()
        });
        let mut client = connection.client.clone();
        let mut snapshots = names.map(|name| Snapshot::missing(name.to_owned()));
        let sent_ms = system_now_ms();
        let call = async {
            let mut answers = client.batch_get_documents(request).await?.into_inner();
            while let Some(answer) = answers.message().await? {
                let read_time = answer.read_time.as_ref();
                self.connections
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
        self.run(&connection, Kind::Read, call).await?;
        Ok(snapshots)
    }

    pub(super) async fn query(&self, query: StructuredQuery) -> Result<Vec<Snapshot>, Failure> {
        let connection = self.connection();
        let request = self.request(RunQueryRequest {
            parent: format!("{}/documents", connection.database),
            query_type: Some(run_query_request::QueryType::StructuredQuery(query)),
            ..RunQueryRequest::default()
        });
        let mut client = connection.client.clone();
        let mut found = Vec::new();
        let sent_ms = system_now_ms();
        let call = async {
            let mut answers = client.run_query(request).await?.into_inner();
            while let Some(answer) = answers.message().await? {
                let read_time = answer.read_time.as_ref();
                self.connections
                    .clock
                    .observe(sent_ms, read_time, system_now_ms());
                found.extend(answer.document.map(Snapshot::found));
            }
            Ok(())
        };
        self.run(&connection, Kind::Read, call).await?;
        Ok(found)
    }

    /// Makes all writes or none. Returns the new version of each document.
    pub(super) async fn commit(
        &self,
        writes: Vec<Write>,
    ) -> Result<Vec<Option<Timestamp>>, Failure> {
        let connection = self.connection();
        let request = self.request(CommitRequest {
            database: connection.database.clone(),
            writes,
            ..CommitRequest::default()
        });
        let mut client = connection.client.clone();
        let sent_ms = system_now_ms();
        let call = client.commit(request);
        let answer = self
            .run(&connection, Kind::Commit, call)
            .await?
            .into_inner();
        let commit_time = answer.commit_time.as_ref();
        self.connections
            .clock
            .observe(sent_ms, commit_time, system_now_ms());
        let results = answer.write_results.into_iter();
        Ok(results.map(|result| result.update_time).collect())
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let left = self.deadline().saturating_duration_since(Instant::now());
        request.set_timeout(left + SERVER_GRACE);
        request
    }

    /// Runs a call until the deadline. If it fails on this side or is not answered in time, the connection
    /// is not used again.
    async fn run<T>(
        &self,
        connection: &Arc<Connection>,
        kind: Kind,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Failure> {
        let waiting = self.connections.waits_for_first_answer(connection);
        let answered = timeout_at(self.deadline(), call).await;
        drop(waiting);
        match answered {
            Ok(Ok(answer)) => {
                connection.has_answered.store(true, Ordering::Relaxed);
                Ok(answer)
            }
            Ok(Err(status)) => {
                if status.source().is_some() || status.code() == Code::Unauthenticated {
                    self.connections.abandon(connection);
                }
                Err(self.explain(connection, kind, &status).await)
            }
            Err(_) => {
                self.connections.abandon(connection);
                let error = self.timed_out();
                Err(Failure::Failed(match kind {
                    Kind::Read => error,
                    Kind::Commit => error.outcome_unknown(),
                }))
            }
        }
    }

    async fn explain(&self, connection: &Connection, kind: Kind, status: &Status) -> Failure {
        let place = self.place();
        let dialer = &self.connections.dialer;
        let Some(source) = status.source() else {
            connection.has_answered.store(true, Ordering::Relaxed);
            return server_failure(kind, status, &place);
        };
        let (reason, cause) = (Reason::of(source), chain(source));
        let was_sent = match Broken::of(status) {
            Broken::NoToken(error) => {
                return Failure::before_it_was_sent(no_token(error, &place));
            }
            Broken::NotConnected => {
                return Failure::before_it_was_sent(dialer.not_connected(source));
            }
            Broken::NotSent => false,
            Broken::Lost => true,
        };
        let error = if connection.has_answered.load(Ordering::Relaxed) {
            lock_error(status, &place)
        } else {
            dialer.not_understood(reason).await.cause(cause)
        };
        if was_sent {
            Failure::while_it_was_sent(kind, error)
        } else {
            Failure::before_it_was_sent(error)
        }
    }

    fn timed_out(&self) -> Error {
        Error::timeout(format!(
            "{} did not answer within {} ms (operationTimeoutMs)",
            self.place(),
            self.connections.config.operation_timeout_ms
        ))
    }
}
