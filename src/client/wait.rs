//! Waiting for a lock: attempts, back-off, and what makes an attempt come earlier.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::host::Moment;
use super::queue::Waiter;
use super::rivals::{Follow, Rivals};
#[cfg(test)]
use super::simulation::mutation::Mutation;
use super::{Attempt, Client, Grant, Settled, aborted, closed};
use crate::backend::Holder;
use crate::error::{Error, ErrorCode};
use crate::lock::retry::RetryPolicy;
use crate::lock::{Key, Ttl};

#[derive(Debug, Clone, Copy)]
pub struct WaitPolicy {
    pub retry: RetryPolicy,
    pub max_retries: u32,
    /// Nothing: as long as it takes.
    pub timeout: Option<Duration>,
}

/// A store that answers at once must not be asked in a busy loop.
const MIN_DELAY: Duration = Duration::from_millis(1);
/// Nor when clocks differ a little about when the holder's time is over.
const MIN_DELAY_OF_EXPIRY: Duration = Duration::from_millis(5);

/// What a wait has used up of its limits.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Nothing: a single attempt.
    policy: Option<WaitPolicy>,
    started: Moment,
    pub attempts: u32,
    /// Attempts that the back-off allowed; those that something else caused are free.
    retries: u32,
    next_retry: Moment,
}

impl Progress {
    pub(super) fn start(policy: Option<WaitPolicy>, now: Moment) -> Self {
        Self {
            policy,
            started: now,
            attempts: 0,
            retries: 0,
            next_retry: now,
        }
    }

    pub(super) fn waited(&self, now: Moment) -> Duration {
        now.since(self.started)
    }

    fn deadline(&self) -> Option<Moment> {
        Some(self.started + self.policy?.timeout?)
    }

    fn is_over(&self, now: Moment) -> bool {
        self.deadline().is_some_and(|deadline| now >= deadline)
    }

    /// After a failed attempt. Whether another one may follow.
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

/// Who wants which lock.
pub(super) struct Wanted<'a> {
    pub key: &'a Key,
    pub ttl: Ttl,
    pub caller: u64,
    pub cancel: Option<&'a CancellationToken>,
}

/// How an attempt went, for a wait.
enum Tried {
    Granted(Grant),
    Refused(Option<Holder>),
    Ended(Settled<Option<Grant>>),
}

/// What comes after an attempt.
struct Next {
    /// When the holder's time is over.
    expiry: Option<Moment>,
    follow: Follow,
}

impl Client {
    /// Tries until the lock is ours, or a limit is reached. Nothing when a single attempt failed.
    pub(super) async fn wait(
        self: &Arc<Self>,
        wanted: &Wanted<'_>,
        progress: &mut Progress,
    ) -> Settled<Option<Grant>> {
        let (ticket, releases) = (self.queues.ticket(), self.queues.releases());
        // Who waits already comes first.
        let behind = progress.policy.is_some() && self.queues.is_waited_for(wanted.key);
        let holder = if behind {
            progress.attempts += 1;
            None
        } else {
            match self.try_once(wanted, progress).await {
                Tried::Granted(grant) => return Ok(Some(grant)).into(),
                Tried::Refused(holder) => holder,
                Tried::Ended(settled) => return settled,
            }
        };
        let Some(policy) = progress.policy else {
            return Ok(None).into();
        };
        let waiter = self.queues.join(wanted.key, ticket);
        if behind {
            waiter.ask_first(self.host.now());
        } else if self.queues.releases() != releases {
            self.queues.released(wanted.key);
        }
        // In a box: most calls need not wait, and their future stays small.
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
        loop {
            let now = self.host.now();
            if !progress.count(policy, now, self.host.random()) {
                return Err(self.timed_out(wanted.key, policy, progress)).into();
            }
            let expiry = holder.map(|holder| now + holder.free_in.max(MIN_DELAY_OF_EXPIRY));
            let took = now.since(asked);
            let mut follow = rivals.refused(holder.take(), now, took, self.host.random());
            // Where nothing can be watched, the back-off alone says when to try.
            if matches!(follow, Follow::TryAt(_))
                && (self.backend.is_local() || self.backend.watch(wanted.key).is_none())
            {
                follow = Follow::watch_soon(now);
            }
            let next = Next { expiry, follow };
            let may_try = match self.until_due(wanted, progress, &mut waiter, &next).await {
                Ok(may_try) => may_try,
                Err(error) => return Err(error).into(),
            };
            if !may_try {
                waiter.ask_first(self.host.now());
                progress.attempts = progress.attempts.saturating_add(1);
                continue;
            }
            asked = self.host.now();
            waiter.tries(asked);
            match self.try_once(wanted, progress).await {
                Tried::Granted(grant) => {
                    waiter.succeed();
                    return Ok(Some(grant)).into();
                }
                Tried::Refused(by) => holder = by,
                Tried::Ended(settled) => return settled,
            }
        }
    }

    /// Returns when an attempt is due: whether it is this waiter's to make.
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
        let due = [next.expiry, try_at].into_iter().flatten().min();
        loop {
            let now = self.host.now();
            if progress.is_over(now) {
                let policy = progress.policy.as_ref();
                return Err(policy.map_or_else(closed, |policy| {
                    self.timed_out(wanted.key, policy, progress)
                }));
            }
            let first = waiter.is_first();
            let retry_is_due = now >= progress.next_retry;
            if first {
                let asked = waiter.take_request();
                if asked || retry_is_due || due.is_some_and(|due| now >= due) {
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

    async fn try_once(self: &Arc<Self>, wanted: &Wanted<'_>, progress: &mut Progress) -> Tried {
        progress.attempts = progress.attempts.saturating_add(1);
        let (key, ttl) = (wanted.key, wanted.ttl);
        let mut attempt = Box::pin(Arc::clone(self).attempt(key.clone(), ttl, wanted.caller));
        let gave_up = tokio::select! {
            biased;
            settled = &mut attempt => Ok(settled),
            error = self.stopped(wanted.cancel) => Err(error),
            error = self.until_over(progress) => Err(error),
        };
        let settled = match gave_up {
            Ok(settled) => settled,
            Err(error) => {
                return Tried::Ended(Settled {
                    result: Err(error),
                    undo: Some(self.undo_when_done(key.clone(), ttl, attempt)),
                });
            }
        };
        match settled.result {
            Ok(Attempt::Granted(grant)) => {
                let unwanted = wanted.cancel.is_some_and(CancellationToken::is_cancelled);
                #[cfg(test)]
                let unwanted = unwanted && !Mutation::CancelForgotten.is_on();
                // The answer may have come when the lock's time was over.
                let late = self.host.now() >= grant.valid_until;
                if !unwanted && !late {
                    return Tried::Granted(grant);
                }
                let undo = self.undo(grant.lock_id, key, ttl);
                if late && !unwanted {
                    return Tried::Refused(None);
                }
                Tried::Ended(Settled {
                    result: Err(aborted()),
                    undo: Some(undo),
                })
            }
            Ok(Attempt::Refused(holder)) => Tried::Refused(holder),
            Err(error) => Tried::Ended(Settled {
                result: Err(error),
                undo: settled.undo,
            }),
        }
    }

    /// Resolves when the time is up while an attempt is under way.
    async fn until_over(&self, progress: &Progress) -> Error {
        let (Some(deadline), Some(policy)) = (progress.deadline(), &progress.policy) else {
            return std::future::pending().await;
        };
        #[cfg(test)]
        if Mutation::DeadlineForgotten.is_on() {
            return std::future::pending().await;
        }
        self.host.sleep_until(deadline).await;
        let error = Error::new(
            ErrorCode::AcquisitionTimeout,
            format!(
                "Failed to acquire lock after {} attempts{}: the store did not answer the last one",
                progress.attempts,
                within(policy)
            ),
        );
        match self.backend.obstacle() {
            Some(obstacle) => Error {
                message: format!("{}. {}", error.message, obstacle.message),
                ..error
            }
            .because_of(obstacle),
            None => error,
        }
    }

    /// Who waits for a lock inside of which it was called waits for itself. Here only the lock is
    /// known, not who called whom.
    fn timed_out(&self, key: &Key, policy: &WaitPolicy, progress: &Progress) -> Error {
        let why = if self.holds_since(key, progress.started) {
            "this process holds it itself, since before this call. If the call was made inside that \
             lock(), hold() or lead(), it waits for itself, as a lock is not reentrant. Else try"
        } else {
            "another holds it. Try"
        };
        Error::new(
            ErrorCode::AcquisitionTimeout,
            format!(
                "Failed to acquire lock after {} attempts{}: {why} later, \
                 or raise acquisition.timeoutMs and acquisition.maxRetries",
                progress.attempts,
                within(policy)
            ),
        )
    }

    /// Resolves when nobody wants the lock any more, with what to tell the caller.
    async fn stopped(&self, cancel: Option<&CancellationToken>) -> Error {
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

fn within(policy: &WaitPolicy) -> String {
    policy
        .timeout
        .map(|timeout| format!(" within {} ms", timeout.as_millis()))
        .unwrap_or_default()
}
