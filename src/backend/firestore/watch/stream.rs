//! One `Listen` stream for all watched documents.

use std::collections::HashMap;

use firestore::gcloud_sdk::google::firestore::v1::listen_request::TargetChange as Change;
use firestore::gcloud_sdk::google::firestore::v1::listen_response::ResponseType;
use firestore::gcloud_sdk::google::firestore::v1::target::{DocumentsTarget, TargetType};
use firestore::gcloud_sdk::google::firestore::v1::target_change::TargetChangeType;
use firestore::gcloud_sdk::google::firestore::v1::{ListenRequest, Target, TargetChange};
use futures_util::stream::poll_fn;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tonic::Code;

use super::sight::Sight;
use super::{DocumentId, Shared};
use crate::backend::firestore::connections::Connection;
use crate::backend::firestore::format::Snapshot;
use crate::lock::time::system_now_ms;

/// Why a stream ended.
pub(super) enum Ended {
    /// No document has been watched for a while.
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

/// Wakes watches until none is left or the stream ends.
pub(super) async fn listen(shared: &Shared, connection: &Connection) -> Ended {
    let limit = shared.config.operation_timeout();
    let (requests, mut queue) = unbounded_channel();
    let mut stream = Stream {
        shared,
        connection,
        collection: connection.document_name(&shared.config.collection, ""),
        requests,
        targets: HashMap::new(),
    };
    // The first request comes before the stream is opened: a server may send nothing before it.
    stream.update_targets();
    let requests = poll_fn(move |context| queue.poll_recv(context));
    let mut client = connection.client.clone();
    let mut answers = match timeout(limit, client.listen(requests)).await {
        Ok(Ok(answers)) => answers.into_inner(),
        Ok(Err(status)) => return Ended::with(status.code()),
        Err(_) => return Ended::Lost,
    };
    let look_again = shared.policy.look_again;
    let mut looks = interval_at(Instant::now() + look_again, look_again);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut answer_due = Some(Instant::now() + limit);
    let mut close_at = None;
    loop {
        tokio::select! {
            () = shared.documents_changed.notified() => {
                if stream.update_targets() {
                    answer_due.get_or_insert(Instant::now() + limit);
                }
                let is_unwatched = stream.targets.is_empty();
                close_at = is_unwatched.then(|| Instant::now() + shared.policy.linger);
            }
            answer = answers.message() => {
                answer_due = None;
                let ended = match answer {
                    Ok(Some(answer)) => answer.response_type.and_then(|it| stream.read(it)),
                    Ok(None) => Some(Ended::Lost),
                    Err(status) => Some(Ended::with(status.code())),
                };
                if let Some(ended) = ended {
                    return ended;
                }
            }
            _ = looks.tick() => stream.update_all(|sight| sight.look_again(look_again)),
            () = at(close_at) => return Ended::Unwatched,
            () = at(answer_due) => return Ended::Lost,
            () = connection.abandoned.cancelled() => return Ended::Lost,
        }
    }
}

/// Waits until then, or for ever.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

struct Stream<'a> {
    shared: &'a Shared,
    connection: &'a Connection,
    /// The prefix of the names of lock documents.
    collection: String,
    requests: UnboundedSender<ListenRequest>,
    /// The targets that the server was asked to watch.
    targets: HashMap<i32, DocumentId>,
}

impl Stream<'_> {
    /// Asks the server to watch exactly the documents that are watched. Returns whether any was added,
    /// so that an answer is due.
    fn update_targets(&mut self) -> bool {
        let wanted = self.shared.targets();
        for target in self.targets.keys() {
            if !wanted.contains_key(target) {
                self.ask(Change::RemoveTarget(*target));
            }
        }
        let mut has_added = false;
        for (target, id) in &wanted {
            if !self.targets.contains_key(target) {
                has_added = true;
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
        has_added
    }

    fn ask(&self, change: Change) {
        // If the stream is gone, the caller's loop is about to see its end.
        let _ = self.requests.send(ListenRequest {
            database: self.connection.database.clone(),
            target_change: Some(change),
            ..ListenRequest::default()
        });
    }

    fn read(&self, answer: ResponseType) -> Option<Ended> {
        match answer {
            ResponseType::TargetChange(change) => return self.read_target_change(&change),
            ResponseType::DocumentChange(change) => {
                if let Some(document) = change.document {
                    self.see(&Snapshot::found(document));
                }
            }
            ResponseType::DocumentDelete(gone) => self.see(&Snapshot::missing(gone.document)),
            ResponseType::DocumentRemove(gone) => self.see(&Snapshot::missing(gone.document)),
            ResponseType::Filter(filter) if filter.count == 0 => {
                self.update(&[filter.target_id], |sight| {
                    *sight = Sight::free();
                    true
                });
            }
            ResponseType::Filter(_) => {}
        }
        None
    }

    fn read_target_change(&self, change: &TargetChange) -> Option<Ended> {
        let targets = &change.target_ids;
        match change.target_change_type() {
            // The server has sent everything about the document. If it sent nothing, there is none.
            TargetChangeType::Current => self.update(targets, |sight| {
                let is_missing = matches!(sight, Sight::Unknown);
                if is_missing {
                    *sight = Sight::free();
                }
                is_missing
            }),
            // The server is about to send everything again.
            TargetChangeType::Reset => self.update(targets, |sight| {
                *sight = Sight::Unknown;
                false
            }),
            TargetChangeType::Remove => {
                let refused = change.cause.as_ref();
                return refused.map(|cause| Ended::with(Code::from(cause.code)));
            }
            TargetChangeType::NoChange | TargetChangeType::Add => {}
        }
        None
    }

    fn see(&self, document: &Snapshot) {
        let Some(id) = document.name.strip_prefix(&self.collection) else {
            return;
        };
        let now = Sight::of(document, system_now_ms());
        self.shared.update(id, |sight| {
            let before = std::mem::replace(sight, now);
            sight.is_news_after(&before)
        });
    }

    /// Updates the documents of these targets. An empty list means all targets.
    fn update(&self, targets: &[i32], change: fn(&mut Sight) -> bool) {
        if targets.is_empty() {
            return self.update_all(change);
        }
        for id in targets.iter().filter_map(|it| self.targets.get(it)) {
            self.shared.update(id, change);
        }
    }

    fn update_all(&self, change: impl Fn(&mut Sight) -> bool) {
        for id in self.targets.values() {
            self.shared.update(id, &change);
        }
    }
}
