//! Keeping a lock alive, and knowing when it is over. Nothing here depends on the caller's event
//! loop.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use super::hold::{Hold, lost, taken_away, time_is_over};
use super::host::Moment;
use super::{Client, Extension};
use crate::backend::Miss;
use crate::error::{Error, Result};

/// After a failed heartbeat the next follows sooner: there is less time left.
const RETRY_AFTER: Duration = Duration::from_millis(500);

impl Client {
    /// Sees to the hold until it ends, unless somebody does already.
    pub(super) fn keep(self: &Arc<Self>, hold: &Arc<Hold>) {
        if !hold.kept.swap(true, Ordering::AcqRel) {
            let (client, hold) = (Arc::clone(self), Arc::clone(hold));
            self.host.spawn(Box::pin(async move {
                tokio::select! {
                    biased;
                    _ = hold.ended.wait() => {}
                    () = client.keep_alive(&hold) => {}
                }
            }));
        }
    }

    /// Extends the lock three times in each TTL, if it is to be. Returns when it is lost.
    async fn keep_alive(self: &Arc<Self>, hold: &Arc<Hold>) {
        let policy = hold.policy;
        let interval = policy.ttl.duration() / 3;
        let give_up = policy.longest.map(|longest| hold.granted_at + longest);
        let mut next = policy.auto_extend.then(|| {
            let now = self.host.now();
            now + interval.min(hold.valid_until().since(now) / 2)
        });
        let mut failure = None;
        loop {
            let deadline = hold.valid_until();
            let first = [next, give_up]
                .into_iter()
                .flatten()
                .fold(deadline, Moment::min);
            tokio::select! {
                biased;
                () = self.host.sleep_until(first) => {}
                () = hold.shortened.notified() => {
                    let now = self.host.now();
                    let soon = now + hold.valid_until().since(now) / 2;
                    next = next.map(|moment| moment.min(soon));
                }
            }
            let now = self.host.now();
            if give_up.is_some_and(|moment| now >= moment) {
                let why = lost("The lock was given up: it was held for maxHoldMs");
                return self.give_up(hold, why);
            }
            if now >= hold.valid_until() {
                return hold.lose(match failure {
                    None if !policy.auto_extend => time_is_over(),
                    failure => not_extended(failure),
                });
            }
            if next.is_none_or(|moment| now < moment) {
                continue;
            }
            match self.extend_until(hold, give_up).await {
                // Whatever comes of it comes too late.
                None => next = Some(self.host.now()),
                Some(Ok(Ok(_))) => {
                    hold.beat(Ok(()));
                    failure = None;
                    next = Some(now + interval);
                }
                Some(Ok(Err(_))) => {
                    let why = taken_away();
                    hold.beat(Err(&why));
                    return hold.lose(why);
                }
                Some(Err(error)) => {
                    hold.beat(Err(&error));
                    failure = Some(error);
                    next = Some(self.host.now() + RETRY_AFTER.min(interval / 3));
                }
            }
        }
    }

    /// Nothing when there is no answer in time, which may be less than before: the lock gets only
    /// its usual TTL. What was sent is not abandoned half-way: it is a task of its own.
    async fn extend_until(
        self: &Arc<Self>,
        hold: &Arc<Hold>,
        give_up: Option<Moment>,
    ) -> Option<Result<Result<Extension, Miss>>> {
        let (answer, mut answered) = oneshot::channel();
        let (client, lock_id, ttl) = (Arc::clone(self), hold.lock_id, hold.policy.ttl);
        self.host.spawn(Box::pin(async move {
            let _ = answer.send(client.extend_once(lock_id, ttl).await);
        }));
        loop {
            let limit = give_up.into_iter().fold(hold.valid_until(), Moment::min);
            tokio::select! {
                biased;
                answer = &mut answered => {
                    let failed = |_| Err(Error::internal("The heartbeat failed"));
                    return Some(answer.unwrap_or_else(failed));
                }
                () = self.host.sleep_until(limit) => return None,
                () = hold.shortened.notified() => {}
            }
        }
    }
}

fn not_extended(failure: Option<Error>) -> Error {
    let error = lost("The lock was lost: it could not be extended before it expired");
    match failure {
        Some(failure) => error.because_of(failure),
        None => error,
    }
}
