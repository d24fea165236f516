//! One `Listen` stream for all watched documents.

use std::collections::HashSet;

use firestore::gcloud_sdk::google::firestore::v1::listen_request::TargetChange as Change;
use firestore::gcloud_sdk::google::firestore::v1::listen_response::ResponseType;
use firestore::gcloud_sdk::google::firestore::v1::target::{DocumentsTarget, TargetType};
use firestore::gcloud_sdk::google::firestore::v1::target_change::TargetChangeType;
use firestore::gcloud_sdk::google::firestore::v1::{ListenRequest, Target, TargetChange};
use futures_util::stream::poll_fn;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tonic::Code;

use super::Shared;
use super::sight::Sight;
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
        targets: HashSet::new(),
        last_target: 0,
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
            _ = looks.tick() => shared.update(|_, document| document.sight.look_again()),
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
    targets: HashSet<i32>,
    last_target: i32,
}

impl Stream<'_> {
    /// Asks the server to watch exactly the documents that are watched. Returns whether any was added,
    /// so that an answer is due.
    fn update_targets(&mut self) -> bool {
        let mut unwatched = std::mem::take(&mut self.targets);
        let mut has_added = false;
        for (id, document) in self.shared.state.lock().documents.iter() {
            let target = *document.target.get_or_insert_with(|| {
                has_added = true;
                self.last_target += 1;
                self.ask(Change::AddTarget(Target {
                    target_id: self.last_target,
                    target_type: Some(TargetType::Documents(DocumentsTarget {
                        documents: vec![format!("{}{id}", self.collection)],
                    })),
                    ..Target::default()
                }));
                self.last_target
            });
            unwatched.remove(&target);
            self.targets.insert(target);
        }
        for target in unwatched {
            self.ask(Change::RemoveTarget(target));
        }
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
                    *sight = Sight::Free;
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
                    *sight = Sight::Free;
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

    fn see(&self, seen: &Snapshot) {
        let now_ms = system_now_ms();
        self.shared.update(|id, document| {
            if seen.name.strip_prefix(&self.collection) != Some(id) {
                return false;
            }
            let before = std::mem::replace(&mut document.sight, Sight::of(seen, now_ms));
            document.sight.is_news_after(&before)
        });
    }

    /// Updates the documents of these targets. An empty list means all targets.
    fn update(&self, targets: &[i32], change: fn(&mut Sight) -> bool) {
        self.shared.update(|_, document| {
            // A document without a target is not watched by the server yet.
            let Some(target) = document.target else {
                return false;
            };
            (targets.is_empty() || targets.contains(&target)) && change(&mut document.sight)
        });
    }
}
