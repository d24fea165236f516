//! One attempt of an operation: the calls that it makes, and why they fail.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firestore::gcloud_sdk::google::firestore::v1::{
    BatchGetDocumentsRequest, CommitRequest, RunQueryRequest, StructuredQuery, Write,
    batch_get_documents_response, run_query_request,
};
use futures_util::TryStreamExt;
use prost_types::Timestamp;
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Request, Status};

use super::connections::{Connection, Connections, Step};
use super::error::{Broken, Failure, Kind, lock_error, no_token, server_failure};
use super::format::Snapshot;
use crate::backend::unreachable::{Reason, chain};
use crate::error::Error;
use crate::lock::time::system_now_ms;

/// How much later than ours the deadline is that the server is told. So a `DEADLINE_EXCEEDED` is the
/// server's own.
const SERVER_GRACE: Duration = Duration::from_secs(1);

pub(super) struct Attempt<'a> {
    pub(super) connections: &'a Connections,
    pub(super) connection: Arc<Connection>,
    pub(super) deadline: Instant,
}

impl Attempt<'_> {
    pub(super) fn document_name(&self, collection: &str, id: &str) -> String {
        self.connection.document_name(collection, id)
    }

    /// Reads the documents with these names. The result has the same order.
    pub(super) async fn read<const N: usize>(
        &self,
        names: [String; N],
    ) -> Result<[Snapshot; N], Failure> {
        let request = self.request(BatchGetDocumentsRequest {
            database: self.connection.database.clone(),
            documents: names.to_vec(),
            ..BatchGetDocumentsRequest::default()
        });
        let mut client = self.connection.client.clone();
        let sent_ms = system_now_ms();
        let call = async {
            let answers = client.batch_get_documents(request).await?;
            answers.into_inner().try_collect().await
        };
        let answers: Vec<_> = self.run(Kind::Read, call).await?;
        let mut snapshots = names.map(Snapshot::missing);
        for answer in answers {
            self.check_clock(sent_ms, answer.read_time);
            if let Some(batch_get_documents_response::Result::Found(found)) = answer.result
                && let Some(wanted) = snapshots.iter_mut().find(|it| it.name == found.name)
            {
                *wanted = Snapshot::found(found);
            }
        }
        Ok(snapshots)
    }

    pub(super) async fn query(&self, query: StructuredQuery) -> Result<Vec<Snapshot>, Failure> {
        let request = self.request(RunQueryRequest {
            parent: format!("{}/documents", self.connection.database),
            query_type: Some(run_query_request::QueryType::StructuredQuery(query)),
            ..RunQueryRequest::default()
        });
        let mut client = self.connection.client.clone();
        let sent_ms = system_now_ms();
        let call = async {
            let answers = client.run_query(request).await?;
            answers.into_inner().try_collect().await
        };
        let answers: Vec<_> = self.run(Kind::Read, call).await?;
        let mut found = Vec::new();
        for answer in answers {
            self.check_clock(sent_ms, answer.read_time);
            found.extend(answer.document.map(Snapshot::found));
        }
        Ok(found)
    }

    /// Makes all writes or none. Returns the new version of each document.
    pub(super) async fn commit(
        &self,
        writes: Vec<Write>,
    ) -> Result<Vec<Option<Timestamp>>, Failure> {
        let request = self.request(CommitRequest {
            database: self.connection.database.clone(),
            writes,
            ..CommitRequest::default()
        });
        let mut client = self.connection.client.clone();
        let sent_ms = system_now_ms();
        let answer = self.run(Kind::Commit, client.commit(request)).await?;
        let answer = answer.into_inner();
        self.check_clock(sent_ms, answer.commit_time);
        let results = answer.write_results.into_iter();
        Ok(results.map(|result| result.update_time).collect())
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let left = self.deadline.saturating_duration_since(Instant::now());
        request.set_timeout(left + SERVER_GRACE);
        request
    }

    fn check_clock(&self, sent_ms: u64, server: Option<Timestamp>) {
        let clock = &self.connections.clock;
        clock.observe(sent_ms, server.as_ref(), system_now_ms());
    }

    /// Makes a call, and waits for its answer until the deadline. The connection is not used again if
    /// the call times out, fails without an answer, or is answered with `UNAUTHENTICATED`.
    async fn run<T>(
        &self,
        kind: Kind,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Failure> {
        let connection = &self.connection;
        let is_first = !connection.has_answered.load(Ordering::Relaxed);
        let waiting = is_first.then(|| self.connections.wait_in(Step::Connected));
        let answered = timeout_at(self.deadline, call).await;
        drop(waiting);
        match answered {
            Ok(Ok(answer)) => {
                connection.has_answered.store(true, Ordering::Relaxed);
                Ok(answer)
            }
            Ok(Err(status)) => Err(self.explain(kind, &status).await),
            Err(_) => {
                connection.abandoned.cancel();
                Err(Failure::of(self.timed_out(), kind == Kind::Commit))
            }
        }
    }

    async fn explain(&self, kind: Kind, status: &Status) -> Failure {
        let (connections, connection) = (self.connections, &self.connection);
        let place = connections.place();
        let Some(source) = status.source() else {
            connection.has_answered.store(true, Ordering::Relaxed);
            if status.code() == Code::Unauthenticated {
                // The next attempt to connect reads the credentials again.
                connection.abandoned.cancel();
            }
            return server_failure(kind, status, &place);
        };
        connection.abandoned.cancel();
        let (reason, cause) = (Reason::of(source), chain(source));
        let was_sent = match Broken::of(status) {
            Broken::NoToken(error) => return Failure::of(no_token(error, &place), false),
            Broken::NotConnected => {
                return Failure::of(connections.peer(&place).error_from(source), false);
            }
            Broken::NotSent => false,
            Broken::Lost => true,
        };
        let error = if connection.has_answered.load(Ordering::Relaxed) {
            lock_error(status, &place)
        } else {
            connections.not_understood(reason).await.cause(cause)
        };
        Failure::of(error, was_sent && kind == Kind::Commit)
    }

    fn timed_out(&self) -> Error {
        Error::timeout(format!(
            "{} did not answer within {} ms (operationTimeoutMs)",
            self.connections.place(),
            self.connections.config.operation_timeout_ms
        ))
    }
}
