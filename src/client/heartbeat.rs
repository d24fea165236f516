//! Extending a lock: when its holder asks for it, and by heartbeats. Heartbeats do not depend on the
//! caller's event loop.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use super::hold::{Hold, expired, heartbeat_interval, lost, lost_elsewhere};
use super::host::Moment;
#[cfg(test)]
use super::simulation::mutation::Mutation;
use super::{Client, Extension};
use crate::backend::{ExtendOutcome, Miss};
use crate::error::{Error, Result};
use crate::lock::{LockId, Ttl};

/// The pause after a failed heartbeat. It is short, because less time is left.
const RETRY_AFTER: Duration = Duration::from_millis(500);

impl Client {
    /// Extends the lock. The inner error says why there is nothing to extend. A hold of this lock then
    /// counts as lost.
    pub async fn extend(
        self: &Arc<Self>,
        lock_id: LockId,
        ttl: Ttl,
    ) -> Result<Result<Extension, Miss>> {
        let hold = self.holds.get(lock_id);
        // With a shorter TTL the next heartbeat may be due before the shared timer would start it.
        if let Some(hold) = hold.as_ref().filter(|hold| hold.needs_keeper()) {
            self.keep(hold);
        }
        let extended = self.extend_once(lock_id, ttl, hold.as_ref()).await?;
        if extended.is_err()
            && let Some(hold) = hold
        {
            hold.mark_lost_elsewhere();
        }
        Ok(extended)
    }

    /// Makes one request. `hold` is the hold of this lock, if this client has one.
    async fn extend_once(
        self: &Arc<Self>,
        lock_id: LockId,
        ttl: Ttl,
        hold: Option<&Arc<Hold>>,
    ) -> Result<Result<Extension, Miss>> {
        // One extension at a time, because otherwise the answer to an earlier one could count last.
        let _extending = match hold {
            Some(hold) => Some(hold.extending.lock().await),
            None => None,
        };
        self.check_open()?;
        // If the holder has released the lock in the meantime, the release must be the last request.
        let is_over = hold.is_some_and(|hold| hold.ended.initialized());
        #[cfg(test)]
        let is_over = is_over && !Mutation::ExtendedAfterEnd.is_on();
        if is_over {
            return Ok(Err(Miss::NotFound));
        }
        let valid_until = self.host.now() + ttl.duration();
        if let Some(hold) = hold {
            hold.note_extension_request(ttl, valid_until);
            self.keep_when_due(hold);
        }
        match self.backend.extend(lock_id, ttl).await? {
            ExtendOutcome::Extended { expires_at_ms } => {
                #[cfg(test)]
                let valid_until = Mutation::ExtendedFromAnswer
                    .instead(valid_until, self.host.now() + ttl.duration());
                if let Some(hold) = hold {
                    hold.extended(expires_at_ms, valid_until);
                }
                Ok(Ok(Extension {
                    expires_at_ms,
                    valid_until,
                }))
            }
            ExtendOutcome::Missed(miss) => Ok(Err(miss)),
        }
    }

    /// Starts the task that keeps the hold alive until it ends, unless there is one.
    pub(super) fn keep(self: &Arc<Self>, hold: &Arc<Hold>) {
        if !hold.is_kept.swap(true, Ordering::AcqRel) {
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

    /// Extends the lock three times in each TTL if it has `autoExtend`. Returns when the lock is lost.
    async fn keep_alive(self: &Arc<Self>, hold: &Arc<Hold>) {
        let policy = hold.policy;
        let interval = heartbeat_interval(policy);
        let give_up = policy.max_hold.map(|max_hold| hold.granted_at + max_hold);
        let mut next = policy.auto_extend.then_some(hold.first_due);
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
                return self.revoke(hold, why);
            }
            if now >= hold.valid_until() {
                return hold.mark_lost(match failure {
                    None if !policy.auto_extend => expired(),
                    failure => not_extended(failure),
                });
            }
            if next.is_none_or(|moment| now < moment) {
                continue;
            }
            match self.extend_until(hold, give_up).await {
                // There was no answer in time. The next iteration revokes the lock, marks it lost, or
                // tries again if another extension has prolonged it.
                None => next = Some(self.host.now()),
                Some(Ok(Ok(_))) => {
                    hold.report_heartbeat(Ok(()));
                    failure = None;
                    next = Some(now + interval);
                }
                // The holder has released the lock in the meantime.
                Some(Ok(Err(_))) if hold.ended.initialized() => return,
                Some(Ok(Err(_))) => {
                    let why = lost_elsewhere();
                    hold.report_heartbeat(Err(&why));
                    return hold.mark_lost(why);
                }
                Some(Err(error)) => {
                    hold.report_heartbeat(Err(&error));
                    failure = Some(error);
                    next = Some(self.host.now() + RETRY_AFTER.min(interval / 3));
                }
            }
        }
    }

    /// Extends the lock by its usual TTL. None if no answer comes before the lock's validity ends,
    /// which may become earlier while this waits. The request is a task of its own, so it always
    /// runs to its end.
    async fn extend_until(
        self: &Arc<Self>,
        hold: &Arc<Hold>,
        give_up: Option<Moment>,
    ) -> Option<Result<Result<Extension, Miss>>> {
        let (answer, mut answered) = oneshot::channel();
        let (client, extended) = (Arc::clone(self), Arc::clone(hold));
        self.host.spawn(Box::pin(async move {
            let (lock_id, ttl) = (extended.lock_id, extended.policy.ttl);
            // The hold is passed on and not looked up: it may have ended and left the registry by now.
            let outcome = client.extend_once(lock_id, ttl, Some(&extended)).await;
            let _ = answer.send(outcome);
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
