//! Waiting for a lock: attempts, back-off, and the events that cause an earlier attempt.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::acquire::{Attempt, Failure, LockRequest, Settled};
use super::host::Moment;
use super::mark::{Mark, Marking};
use super::queue::Waiter;
use super::rivals::{Follow, Rivals};
#[cfg(test)]
use super::simulation::mutation::Mutation;
use super::{Client, Grant, aborted, closed, timeout};
use crate::backend::Holder;
use crate::error::{Cause, Error, ErrorCode};
use crate::lock::retry::RetryPolicy;

#[derive(Debug, Clone, Copy)]
pub struct WaitPolicy {
    pub retry: RetryPolicy,
    pub max_retries: u32,
    /// None to wait for as long as it takes.
    pub timeout: Option<Duration>,
}

/// The shortest pause between two attempts, so that a fast store is not asked in a busy loop.
const MIN_DELAY: Duration = Duration::from_millis(1);
/// The shortest pause before an attempt that expects the holder's lock to have expired. Clocks differ
/// a little.
const MIN_EXPIRY_DELAY: Duration = Duration::from_millis(5);

/// How many times in a row a wait repeats an attempt that was lost with its connection. A server that
/// restarts ends all connections, and an attempt may notice the loss of only one of them.
const MAX_REPEATS: u32 = 4;
/// The pause before the first such repetition. It doubles each time.
const LOST_ATTEMPT_PAUSE: Duration = Duration::from_millis(20);

/// How much of its limits a wait has used.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// None if nothing limits it: a single attempt.
    pub(super) policy: Option<WaitPolicy>,
    /// Whether it waits if its attempt is refused.
    waits: bool,
    /// Whether it waits for one of several keys, and may hold others meanwhile.
    is_part_of_set: bool,
    pub(super) started: Moment,
    pub attempts: u32,
    /// Attempts that the back-off caused. Attempts with another cause do not count.
    retries: u32,
    next_retry: Moment,
}

impl Progress {
    pub(super) fn start(policy: Option<WaitPolicy>, now: Moment) -> Self {
        Self {
            policy,
            waits: policy.is_some(),
            is_part_of_set: false,
            started: now,
            attempts: 0,
            retries: 0,
            next_retry: now,
        }
    }

    /// Returns a single attempt within the limits of this wait.
    pub(super) fn single(self) -> Self {
        Self {
            waits: false,
            ..self
        }
    }

    /// Returns the wait for several keys that a single attempt was made for.
    pub(super) fn resumed(self) -> Self {
        Self {
            waits: self.policy.is_some(),
            is_part_of_set: true,
            ..self
        }
    }

    pub(super) fn waited(&self, now: Moment) -> Duration {
        now.since(self.started)
    }

    fn deadline(&self) -> Option<Moment> {
        Some(self.started + self.policy?.timeout?)
    }

    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.deadline().is_some_and(|deadline| now >= deadline)
    }

    /// Counts a failed attempt. Returns whether another one may follow.
    fn count(&mut self, policy: &WaitPolicy, now: Moment, random: f64) -> bool {
        if now < self.next_retry {
            return true;
        }
        self.retries = self.retries.saturating_add(1);
        if self.retries > policy.max_retries || self.is_over(now) {
            return false;
        }
        let remaining_ms = self.deadline().map_or(f64::MAX, |deadline| {
            deadline.since(now).as_secs_f64() * 1000.0
        });
        let delay_ms = policy.retry.delay_ms(self.retries, remaining_ms, random);
        let delay = Duration::try_from_secs_f64(delay_ms / 1000.0).unwrap_or(Duration::MAX);
        self.next_retry = now + delay.max(MIN_DELAY);
        true
    }
}

/// The lock that a caller waits for until it cancels.
pub(super) struct Wanted<'a> {
    pub lock: &'a LockRequest,
    pub cancel: Option<&'a CancellationToken>,
}

/// The events that cause the next attempt.
struct Next {
    /// When the holder's lock expires.
    expiry: Option<Moment>,
    /// When the mark in a shared record has to be left or renewed.
    renewal: Option<Moment>,
    follow: Follow,
}

impl Client {
    /// Tries until the lock is acquired or a limit is reached. None if a single attempt was refused.
    pub(super) async fn wait(
        self: &Arc<Self>,
        wanted: &Wanted<'_>,
        progress: &mut Progress,
    ) -> Settled<Option<Grant>> {
        let Some(policy) = progress.policy.filter(|_| progress.waits) else {
            return match self.try_once(wanted, progress, None).await {
                Attempt::Granted(grant) => Ok(Some(grant)).into(),
                Attempt::Refused(_) => Ok(None).into(),
                Attempt::Failed(failure) => failure.into(),
            };
        };
        let arrival = self.queues.arrive(&wanted.lock.key);
        let holder = if arrival.is_behind {
            progress.attempts += 1;
            None
        } else {
            match self.try_once(wanted, progress, None).await {
                Attempt::Granted(grant) => return Ok(Some(grant)).into(),
                Attempt::Refused(holder) => holder,
                Attempt::Failed(failure) => return failure.into(),
            }
        };
        let waiter = self.queues.join(wanted.lock, &arrival);
        if arrival.is_behind {
            waiter.wake_first(self.host.now());
        }
        // Boxed, because most calls need not wait: their future stays small.
        Box::pin(self.wait_in_queue(wanted, progress, &policy, waiter, holder)).await
    }

    async fn wait_in_queue(
        self: &Arc<Self>,
        wanted: &Wanted<'_>,
        progress: &mut Progress,
        policy: &WaitPolicy,
        mut waiter: Waiter,
        mut holder: Option<Holder>,
    ) -> Settled<Option<Grant>> {
        let mut asked = progress.started;
        let mut rivals = Rivals::default();
        let mut mark: Option<Marking> = None;
        loop {
            let now = self.host.now();
            let refused_by = holder.take();
            if let Some(holder) = &refused_by {
                waiter.note_lease(now + holder.free_in, holder.label.clone());
            }
            if !progress.count(policy, now, self.host.random()) {
                return Err(self.timed_out(&wanted.lock.key, progress, &waiter)).into();
            }
            let expiry = refused_by
                .as_ref()
                .map(|holder| now + holder.free_in.max(MIN_EXPIRY_DELAY));
            let took = now.since(asked);
            let shared_by = refused_by.as_ref().filter(|holder| holder.is_shared);
            let renewal = (shared_by.is_some() && !wanted.lock.access.is_shared()).then(|| {
                let mark = mark.get_or_insert_with(|| Marking::new(self, wanted.lock.key.clone()));
                mark.next_renewal(now)
            });
            // Holders that share a key come and go, so they say nothing about rivals.
            let rival = refused_by.as_ref().filter(|holder| !holder.is_shared);
            let mut follow = rivals.refused(rival, now, took, self.host.random());
            // If the store has no watch, only the back-off says when to try. A wait that holds other keys
            // does not pause, because everybody who wants those would wait for its pause, too.
            if matches!(follow, Follow::TryAt(_))
                && (progress.is_part_of_set
                    || self.capabilities.is_local
                    || self.backend.watch(&wanted.lock.key).is_none())
            {
                follow = Follow::watch_soon(now);
            }
            let next = Next {
                expiry,
                renewal,
                follow,
            };
            let may_try = match self.until_due(wanted, progress, &mut waiter, &next).await {
                Ok(may_try) => may_try,
                Err(error) => return Err(error).into(),
            };
            if !may_try {
                waiter.wake_first(self.host.now());
                progress.attempts = progress.attempts.saturating_add(1);
                continue;
            }
            asked = self.host.now();
            waiter.note_attempt(asked);
            let left = mark.as_mut().map(|mark| mark.renewed(asked));
            match self.try_once(wanted, progress, left).await {
                Attempt::Granted(grant) => {
                    // The exclusive lock has replaced the record with the mark.
                    mark.into_iter().for_each(Marking::forget);
                    waiter.succeed(grant.share);
                    return Ok(Some(grant)).into();
                }
                Attempt::Refused(by) => holder = by,
                Attempt::Failed(failure) => return failure.into(),
            }
        }
    }

    /// Waits until an attempt is due. Returns whether this waiter makes it, because it is the first.
    async fn until_due(
        &self,
        wanted: &Wanted<'_>,
        progress: &Progress,
        waiter: &mut Waiter,
        next: &Next,
    ) -> Result<bool, Error> {
        let (try_at, mut watch_at) = match next.follow {
            Follow::TryAt(at) => (Some(at), None),
            Follow::WatchFrom(at) => (None, Some(at)),
        };
        if try_at.is_some() {
            waiter.unwatch();
        }
        let due = [next.expiry, try_at, next.renewal]
            .into_iter()
            .flatten()
            .min();
        loop {
            let now = self.host.now();
            if progress.is_over(now) {
                return Err(self.timed_out(&wanted.lock.key, progress, waiter));
            }
            let first = waiter.is_first();
            let retry_is_due = now >= progress.next_retry;
            if first {
                let is_woken = waiter.take_wake_up();
                if is_woken || retry_is_due || due.is_some_and(|due| now >= due) {
                    return Ok(true);
                }
                if watch_at.is_some_and(|at| now >= at) {
                    waiter.watch(|key| self.backend.watch(key));
                    watch_at = None;
                }
            } else if retry_is_due {
                return Ok(false);
            }
            let for_first = [due, watch_at].into_iter().flatten();
            let wake_at = for_first
                .filter(|_| first)
                .chain(progress.deadline())
                .fold(progress.next_retry, Moment::min);
            tokio::select! {
                biased;
                error = self.stopped(wanted.cancel) => return Err(error),
                () = waiter.woken() => {}
                () = self.host.sleep_until(wake_at) => {}
            }
        }
    }

    /// Makes an attempt. A wait repeats an attempt that was lost with its connection, because the server
    /// may be restarting. The next attempt is sent when there is a new connection. A lock that the lost
    /// attempt may have acquired is released in the background.
    async fn try_once(
        self: &Arc<Self>,
        wanted: &Wanted<'_>,
        progress: &mut Progress,
        mark: Option<Arc<Mark>>,
    ) -> Attempt {
        match self.attempt_once(wanted, progress, mark.clone()).await {
            Attempt::Failed(failure) if progress.waits && was_lost(&failure.error) => {
                Box::pin(self.try_again(wanted, progress, mark)).await
            }
            attempt => attempt,
        }
    }

    async fn try_again(
        self: &Arc<Self>,
        wanted: &Wanted<'_>,
        progress: &mut Progress,
        mark: Option<Arc<Mark>>,
    ) -> Attempt {
        let mut pause = LOST_ATTEMPT_PAUSE;
        let mut repeated = 0;
        loop {
            tokio::select! {
                biased;
                error = self.stopped(wanted.cancel) => return Attempt::Failed(error.into()),
                error = self.until_over(progress) => return Attempt::Failed(error.into()),
                () = self.host.sleep_until(self.host.now() + pause) => {}
            }
            pause *= 2;
            repeated += 1;
            match self.attempt_once(wanted, progress, mark.clone()).await {
                Attempt::Failed(failure) if repeated < MAX_REPEATS && was_lost(&failure.error) => {}
                attempt => return attempt,
            }
        }
    }

    /// Makes an attempt, and undoes it if its outcome is no longer wanted.
    async fn attempt_once(
        self: &Arc<Self>,
        wanted: &Wanted<'_>,
        progress: &mut Progress,
        mark: Option<Arc<Mark>>,
    ) -> Attempt {
        progress.attempts = progress.attempts.saturating_add(1);
        let (key, ttl) = (&wanted.lock.key, wanted.lock.ttl);
        let mut attempt = Box::pin(Arc::clone(self).attempt(wanted.lock.clone(), mark));
        let answer = tokio::select! {
            biased;
            answer = &mut attempt => Ok(answer),
            error = self.stopped(wanted.cancel) => Err(error),
            error = self.until_over(progress) => Err(error),
        };
        let grant = match answer {
            Ok(Attempt::Granted(grant)) => grant,
            Ok(other) => return other,
            Err(error) => {
                return Attempt::Failed(Failure {
                    error,
                    undo: Some(self.undo_when_done(key.clone(), ttl, attempt)),
                });
            }
        };
        let is_unwanted = wanted.cancel.is_some_and(CancellationToken::is_cancelled);
        #[cfg(test)]
        let is_unwanted = is_unwanted && !Mutation::CancelForgotten.is_on();
        if is_unwanted {
            return Attempt::Failed(Failure {
                error: aborted(),
                undo: Some(self.undo(grant.lock_id, key, ttl)),
            });
        }
        // The answer may have arrived after the lock's validity ended.
        if self.host.now() >= grant.valid_until {
            drop(self.undo(grant.lock_id, key, ttl));
            return Attempt::Refused(None);
        }
        Attempt::Granted(grant)
    }

    /// Waits until the time of the wait is over, while an attempt is under way. Returns the error.
    pub(super) async fn until_over(&self, progress: &Progress) -> Error {
        let Some(deadline) = progress.deadline() else {
            return std::future::pending().await;
        };
        #[cfg(test)]
        if Mutation::DeadlineForgotten.is_on() {
            return std::future::pending().await;
        }
        self.host.sleep_until(deadline).await;
        timeout::unanswered(progress, self.host.now(), self.backend.obstacle())
    }

    /// Waits until the caller cancels or the client closes. Returns the error for the caller.
    pub(super) async fn stopped(&self, cancel: Option<&CancellationToken>) -> Error {
        let Some(cancel) = cancel else {
            self.closing.cancelled().await;
            return closed();
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => aborted(),
            () = self.closing.cancelled() => closed(),
        }
    }
}

/// Returns whether the connection was lost while the attempt was in flight. An error that a
/// custom backend threw is never repeated but reported as it is.
pub(super) fn was_lost(error: &Error) -> bool {
    error.code == ErrorCode::ServiceUnavailable
        && error.outcome_unknown
        && !matches!(error.cause, Some(Cause::Thrown(_)))
}
