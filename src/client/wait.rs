//! `lock()`'s wait: attempts, back-off, and hand-over within the process.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{Client, Grant, Settled, aborted, closed};
use crate::backend::AcquireRequest;
use crate::error::{Error, ErrorCode};
use crate::lock::retry::RetryPolicy;
use crate::lock::{Key, LockId, Ttl};

#[derive(Debug, Clone, Copy)]
pub struct WaitPolicy {
    pub retry: RetryPolicy,
    pub max_retries: u32,
    pub timeout: Duration,
}

/// A store that answers at once must not be asked in a busy loop.
const MIN_DELAY: Duration = Duration::from_millis(1);

impl Client {
    /// Tries until the lock is ours, the time or the retries are used up, or `cancel` is.
    pub async fn acquire_wait(
        self: Arc<Self>,
        key: Key,
        ttl: Ttl,
        policy: WaitPolicy,
        cancel: CancellationToken,
    ) -> Settled<Grant> {
        let started = Instant::now();
        let deadline = started + policy.timeout;
        let waiter = self.waiters.join(&key);
        let mut attempts = 0u32;
        // Attempts that the back-off allowed; those that a release in this process triggered are free.
        let mut retries = 0u32;
        let mut next_retry = started;
        loop {
            attempts = attempts.saturating_add(1);
            let request = AcquireRequest {
                key: key.clone(),
                lock_id: LockId::generate(),
                ttl,
            };
            let mut attempt = Box::pin(Arc::clone(&self).attempt_owned(request.clone()));
            let settled = tokio::select! {
                biased;
                settled = &mut attempt => settled,
                error = self.stopped(&cancel) => {
                    let undo = self.undo_when_done(request, attempt);
                    return Settled { result: Err(error), undo: Some(undo) };
                }
                () = sleep_until(deadline) => {
                    let undo = self.undo_when_done(request, attempt);
                    return Settled { result: Err(timed_out(policy, attempts)), undo: Some(undo) };
                }
            };
            match settled.result {
                Ok(Some(_)) if cancel.is_cancelled() => {
                    return Settled {
                        result: Err(aborted()),
                        undo: Some(self.undo(&request)),
                    };
                }
                Ok(Some(grant)) => return Ok(grant).into(),
                Err(error) => {
                    return Settled {
                        result: Err(error),
                        undo: settled.undo,
                    };
                }
                Ok(None) => {}
            }

            let now = Instant::now();
            if now >= next_retry {
                retries += 1;
                if retries > policy.max_retries || now >= deadline {
                    return Err(timed_out(policy, attempts)).into();
                }
                let remaining_ms = (deadline - now).as_secs_f64() * 1000.0;
                let delay_ms = policy.retry.delay_ms(retries, remaining_ms, rand::random());
                next_retry = now + Duration::from_secs_f64(delay_ms / 1000.0).max(MIN_DELAY);
            }
            tokio::select! {
                biased;
                error = self.stopped(&cancel) => return Err(error).into(),
                () = waiter.released() => {}
                () = sleep_until(next_retry) => {}
            }
            if Instant::now() >= deadline {
                return Err(timed_out(policy, attempts)).into();
            }
        }
    }

    /// Resolves when nobody wants the lock any more, with what to tell the caller.
    async fn stopped(&self, cancel: &CancellationToken) -> Error {
        tokio::select! {
            () = cancel.cancelled() => aborted(),
            () = self.closing.cancelled() => closed(),
        }
    }

    async fn attempt_owned(self: Arc<Self>, request: AcquireRequest) -> Settled<Option<Grant>> {
        self.attempt(&request).await
    }
}

fn timed_out(policy: WaitPolicy, attempts: u32) -> Error {
    Error::new(
        ErrorCode::AcquisitionTimeout,
        format!(
            "Failed to acquire lock after {attempts} attempts within {} ms: another holds it. \
             Try later, or raise acquisition.timeoutMs and acquisition.maxRetries",
            policy.timeout.as_millis()
        ),
    )
}
