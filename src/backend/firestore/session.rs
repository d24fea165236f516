//! One operation and its calls. Every call has a deadline.

use std::sync::Arc;
use std::time::Duration;

use googleapis_tonic_google_firestore_v1::google::firestore::v1::{
    BatchGetDocumentsRequest, CommitRequest, RunQueryRequest, StructuredQuery, Write,
    batch_get_documents_response, run_query_request,
};
use prost_types::Timestamp;
use tokio::time::{Instant, timeout_at};
use tonic::{Request, Status};

use super::client::{Client, Connection};
use super::error::{Failure, commit_failure, read_failure};
use super::format::Snapshot;
use crate::error::{Error, Result};
use crate::lock::time::system_now_ms;

/// The server hears of the deadline too, a little late: what it then says came from itself.
const SERVER_GRACE: Duration = Duration::from_secs(1);

/// One operation: its connection and when it must be over.
pub(super) struct Session<'a> {
    pub(super) client: &'a Client,
    pub(super) connection: Arc<Connection>,
    pub(super) deadline: Instant,
}

impl Session<'_> {
    /// The documents with these names, in this order, as they are now.
    pub(super) async fn read<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<[Snapshot; N], Failure> {
        let request = self.request(BatchGetDocumentsRequest {
            database: self.connection.database.clone(),
            documents: names.map(str::to_owned).to_vec(),
            mask: None,
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
            Some(Err(status)) => Err(read_failure(&status, &self.connection.place)),
            None => Err(self.timed_out().into()),
        }
    }

    pub(super) async fn query(&self, query: StructuredQuery) -> Result<Vec<Snapshot>, Failure> {
        let request = self.request(RunQueryRequest {
            parent: format!("{}/documents", self.connection.database),
            query_type: Some(run_query_request::QueryType::StructuredQuery(query)),
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
            Some(Err(status)) => Err(read_failure(&status, &self.connection.place)),
            None => Err(self.timed_out().into()),
        }
    }

    /// All writes or none; the new version of each document.
    pub(super) async fn commit(
        &self,
        writes: Vec<Write>,
    ) -> Result<Vec<Option<Timestamp>>, Failure> {
        let request = self.request(CommitRequest {
            database: self.connection.database.clone(),
            writes,
            transaction: Vec::new(),
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
            Some(Err(status)) => Err(commit_failure(&status, &self.connection.place)),
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
            "{} did not answer within {} ms",
            self.connection.place, self.client.config.operation_timeout_ms
        ))
    }
}
