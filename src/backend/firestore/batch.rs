//! Changes of one lock document that callers of this process ask for at the same time.
//!
//! All holders of a shared key are in one document, and of several commits that start from the same
//! version of it only one succeeds. So the changes of a process are made together: one caller has the
//! turn, and makes those of all that have come meanwhile with one read and one commit.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::FirestoreBackend;
use super::format::DocumentIds;
use super::holding::Holding;
use super::retry::MAX_CHANGED;
use crate::error::{Error, Result};

/// What a change does. Changes of a batch are made in the order of this list, so that a holder that
/// leaves makes room for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A holder or a mark is removed.
    Removal,
    Extension,
    /// Needs the fence counter.
    Acquisition,
}

/// A change that a caller waits for. It is applied again if the documents have changed meanwhile, and
/// answered once.
pub(super) trait BatchedChange: Send + Sync {
    fn kind(&self) -> Kind;
    fn apply(&self, holding: &mut Holding);
    /// `failure` is the reason why nothing was written, if something should have been.
    fn answer(self: Box<Self>, failure: Option<Error>);
}

struct Asked<T, F> {
    kind: Kind,
    change: F,
    outcome: Mutex<Option<Result<T>>>,
    answer: oneshot::Sender<Result<T>>,
}

impl<T, F> BatchedChange for Asked<T, F>
where
    T: Send,
    F: Fn(&mut Holding) -> Result<T> + Send + Sync,
{
    fn kind(&self) -> Kind {
        self.kind
    }

    fn apply(&self, holding: &mut Holding) {
        *self.outcome.lock() = Some((self.change)(holding));
    }

    fn answer(self: Box<Self>, failure: Option<Error>) {
        let outcome = match failure {
            Some(error) => Err(error),
            None => self
                .outcome
                .into_inner()
                .unwrap_or_else(|| Err(unanswered())),
        };
        // Callers wait for their answer. If one is gone after all, nobody misses it.
        let _ = self.answer.send(outcome);
    }
}

fn unanswered() -> Error {
    Error::unavailable("The operation was ended together with others of this process")
        .outcome_unknown()
}

/// The documents that callers of this process change now, by id.
#[derive(Default)]
pub(super) struct Batches(Mutex<HashMap<String, Arc<Queue>>>);

#[derive(Default)]
struct Queue {
    waiting: Mutex<Vec<Box<dyn BatchedChange>>>,
    turn: tokio::sync::Mutex<()>,
}

/// A place in the queue of a document. The last one that is dropped removes the queue.
struct Place<'a> {
    batches: &'a Batches,
    document: String,
    queue: Arc<Queue>,
}

impl Batches {
    fn queue_of(&self, document: &str) -> Place<'_> {
        let mut queues = self.0.lock();
        let queue = queues.entry(document.to_owned()).or_default();
        Place {
            batches: self,
            document: document.to_owned(),
            queue: Arc::clone(queue),
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queues = self.batches.0.lock();
        // The map has one reference, and this place the other one.
        if Arc::strong_count(&self.queue) <= 2 {
            queues.remove(&self.document);
        }
    }
}

impl FirestoreBackend {
    /// Makes a change of the lock document with this id, together with the changes that others ask for.
    pub(super) async fn change_together<T: Send + 'static>(
        &self,
        document: &str,
        kind: Kind,
        change: impl Fn(&mut Holding) -> Result<T> + Send + Sync + 'static,
    ) -> Result<T> {
        let place = self.batches.queue_of(document);
        let (asked, mut answer) = ask(kind, change);
        place.queue.waiting.lock().push(asked);
        let turn = place.queue.turn.lock().await;
        // Whoever had the turn before may have made this change.
        if let Ok(outcome) = answer.try_recv() {
            return outcome;
        }
        let batch = std::mem::take(&mut *place.queue.waiting.lock());
        // Each change of another process succeeds, so this one does in time. Its deadline is the limit.
        self.change_now(document, u32::MAX, batch).await;
        drop(turn);
        answer.await.unwrap_or_else(|_| Err(unanswered()))
    }

    /// Makes a change of the lock document with this id, without waiting for others.
    pub(super) async fn change_alone<T: Send + 'static>(
        &self,
        document: &str,
        kind: Kind,
        change: impl Fn(&mut Holding) -> Result<T> + Send + Sync + 'static,
    ) -> Result<T> {
        let (asked, answer) = ask(kind, change);
        self.change_now(document, MAX_CHANGED, vec![asked]).await;
        answer.await.unwrap_or_else(|_| Err(unanswered()))
    }

    async fn change_now(
        &self,
        document: &str,
        max_changed: u32,
        mut batch: Vec<Box<dyn BatchedChange>>,
    ) {
        batch.sort_by_key(|change| change.kind());
        let changed = match DocumentIds::of_lock(document.to_owned()) {
            Ok(ids) => {
                let attempts = self.connections.run_against(max_changed, |attempt| {
                    self.try_changes(attempt, &ids, &batch)
                });
                attempts.await
            }
            Err(error) => Err(error),
        };
        for change in batch {
            change.answer(changed.as_ref().err().cloned());
        }
    }
}

type Answer<T> = oneshot::Receiver<Result<T>>;

fn ask<T: Send + 'static>(
    kind: Kind,
    change: impl Fn(&mut Holding) -> Result<T> + Send + Sync + 'static,
) -> (Box<dyn BatchedChange>, Answer<T>) {
    let (sender, answer) = oneshot::channel();
    let asked = Asked {
        kind,
        change,
        outcome: Mutex::new(None),
        answer: sender,
    };
    (Box::new(asked), answer)
}
