//! The one `Listen` stream for all documents that have waiters.

use std::collections::HashMap;
use std::sync::Arc;

use firestore::gcloud_sdk::google::firestore::v1::listen_request::TargetChange as Change;
use firestore::gcloud_sdk::google::firestore::v1::listen_response::ResponseType;
use firestore::gcloud_sdk::google::firestore::v1::target::{DocumentsTarget, TargetType};
use firestore::gcloud_sdk::google::firestore::v1::target_change::TargetChangeType;
use firestore::gcloud_sdk::google::firestore::v1::{ListenRequest, Target, TargetChange};
use futures_util::stream::poll_fn;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout};
use tonic::Code;

use super::at;
use super::documents::Documents;
use super::sight::Sight;
use super::watcher::Listening;
use crate::backend::firestore::connections::Connection;
use crate::backend::firestore::format::Snapshot;
use crate::lock::time::system_now_ms;

/// Why a stream ended.
pub(super) enum Ended {
    /// There have been no waiters for a while.
    Unwatched,
    Lost,
    /// The server refuses to listen, and would refuse again.
    Refused(Code),
}

impl Ended {
    fn with(code: Code) -> Self {
        match code {
            Code::PermissionDenied
            | Code::Unimplemented
            | Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::NotFound => Self::Refused(code),
            _ => Self::Lost,
        }
    }
}

/// Notifies waiters of changes until there are no waiters or the stream ends.
pub(super) async fn listen(listening: &Listening, connection: &Connection) -> Ended {
    let limit = listening.config.operation_timeout();
    let (requests, mut queue) = unbounded_channel();
    let mut stream = Stream {
        documents: &listening.documents,
        connection,
        collection: connection.document_name(&listening.config.collection, ""),
        requests,
        targets: HashMap::new(),
    };
    // The first request comes before the stream is opened: a server may send nothing before it.
    stream.update();
    let requests = poll_fn(move |context| queue.poll_recv(context));
    let mut client = connection.client.clone();
    let mut answers = match timeout(limit, client.listen(requests)).await {
        Ok(Ok(answers)) => answers.into_inner(),
        Ok(Err(status)) => return Ended::with(status.code()),
        Err(_) => return Ended::Lost,
    };
    let mut answer_due = Some(Instant::now() + limit);
    let mut close_at = None;
    loop {
        tokio::select! {
            () = listening.updated.notified() => {
                if stream.update() {
                    answer_due.get_or_insert(Instant::now() + limit);
                }
                let unwatched = stream.targets.is_empty();
                close_at = unwatched.then(|| Instant::now() + listening.policy.linger);
            }
            answer = answers.message() => {
                answer_due = None;
                let ended = match answer {
                    Ok(Some(answer)) => answer.response_type.and_then(|it| stream.hear(it)),
                    Ok(None) => Some(Ended::Lost),
                    Err(status) => Some(Ended::with(status.code())),
                };
                if let Some(ended) = ended {
                    return ended;
                }
            }
            () = at(close_at) => return Ended::Unwatched,
            () = at(answer_due) => return Ended::Lost,
            () = connection.abandoned.cancelled() => return Ended::Lost,
        }
    }
}

struct Stream<'a> {
    documents: &'a Documents,
    connection: &'a Connection,
    /// The prefix of the names of lock documents.
    collection: String,
    requests: UnboundedSender<ListenRequest>,
    /// The targets that the server was asked to watch.
    targets: HashMap<i32, Arc<str>>,
}

impl Stream<'_> {
    /// Adds and removes targets so that they are the documents with waiters. Returns whether any was
    /// added, so that an answer is due.
    fn update(&mut self) -> bool {
        let wanted = self.documents.targets();
        for target in self.targets.keys() {
            if !wanted.contains_key(target) {
                self.ask(Change::RemoveTarget(*target));
            }
        }
        let mut added = false;
        for (target, id) in &wanted {
            if !self.targets.contains_key(target) {
                added = true;
                self.ask(Change::AddTarget(Target {
                    target_id: *target,
                    target_type: Some(TargetType::Documents(DocumentsTarget {
                        documents: vec![format!("{}{id}", self.collection)],
                    })),
                    ..Target::default()
                }));
            }
        }
        self.targets = wanted;
        added
    }

    fn ask(&self, change: Change) {
        // If the stream is gone, the caller's loop is about to see its end.
        let _ = self.requests.send(ListenRequest {
            database: self.connection.database.clone(),
            target_change: Some(change),
            ..ListenRequest::default()
        });
    }

    fn hear(&self, answer: ResponseType) -> Option<Ended> {
        match answer {
            ResponseType::TargetChange(change) => return self.hear_of_targets(&change),
            ResponseType::DocumentChange(change) => {
                if let Some(document) = change.document {
                    self.see(&Snapshot::found(document));
                }
            }
            ResponseType::DocumentDelete(gone) => self.see(&Snapshot::missing(gone.document)),
            ResponseType::DocumentRemove(gone) => self.see(&Snapshot::missing(gone.document)),
            ResponseType::Filter(filter) if filter.count == 0 => {
                self.update_sights(&[filter.target_id], Sight::see_free);
            }
            ResponseType::Filter(_) => {}
        }
        None
    }

    fn hear_of_targets(&self, change: &TargetChange) -> Option<Ended> {
        match change.target_change_type() {
            TargetChangeType::Current => self.update_sights(&change.target_ids, Sight::complete),
            TargetChangeType::Reset => self.update_sights(&change.target_ids, Sight::forget),
            TargetChangeType::Remove => {
                let refused = change.cause.as_ref();
                return refused.map(|cause| Ended::with(Code::from(cause.code)));
            }
            TargetChangeType::NoChange | TargetChangeType::Add => {}
        }
        None
    }

    fn see(&self, document: &Snapshot) {
        if let Some(id) = document.name.strip_prefix(&self.collection) {
            let now_ms = system_now_ms();
            self.documents
                .update(id, |sight| sight.see(document, now_ms));
        }
    }

    /// An empty list means all targets.
    fn update_sights(&self, targets: &[i32], change: fn(&mut Sight)) {
        if targets.is_empty() {
            for id in self.targets.values() {
                self.documents.update(id, change);
            }
        }
        for id in targets.iter().filter_map(|it| self.targets.get(it)) {
            self.documents.update(id, change);
        }
    }
}
