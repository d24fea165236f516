//! Undoing an acquire that nobody owns: cancelled, timed out, or its answer was lost.
//! Its lockId is known, so it can be released as soon as the server answers again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use super::Client;
use crate::backend::{AcquireRequest, ReleaseOutcome};
use crate::lock::LockId;
use crate::lock::time::TIME_TOLERANCE_MS;

/// How long the end of an undo is waited for, by a caller or by `close`; it goes on afterwards.
const PATIENCE: Duration = Duration::from_secs(10);
const FIRST_DELAY: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(2);
/// The lost request may still be on its way, so "not found" is believed only the second time.
const SECOND_LOOK: Duration = Duration::from_millis(500);
/// When a server comes back, thousands may want to undo at once.
const AT_ONCE: usize = 128;

pub struct Undoing {
    tasks: TaskTracker,
    permits: Semaphore,
    given_up: AtomicBool,
}

impl Default for Undoing {
    fn default() -> Self {
        Self {
            tasks: TaskTracker::new(),
            permits: Semaphore::new(AT_ONCE),
            given_up: AtomicBool::new(false),
        }
    }
}

impl Undoing {
    /// Waits for what is under way; what takes too long is given up.
    pub async fn finish(&self) {
        self.tasks.close();
        let _ = timeout(PATIENCE, self.tasks.wait()).await;
        self.given_up.store(true, Ordering::Relaxed);
    }
}

impl Client {
    /// Starts the undo of `request`. The future it returns ends when that is done, or after a while.
    pub(super) fn undo(self: &Arc<Self>, request: &AcquireRequest) -> BoxFuture<'static, ()> {
        // Later than this the lock has expired by itself.
        let give_up =
            Instant::now() + request.ttl.duration() + Duration::from_millis(TIME_TOLERANCE_MS);
        let lock_id = request.lock_id;
        let key = request.key.clone();
        let client = Arc::clone(self);
        let task = self.undoing.tasks.spawn(async move {
            client.release_for_sure(lock_id, give_up).await;
            client.waiters.wake_one(&key);
        });
        Box::pin(async move {
            let _ = timeout(PATIENCE, task).await;
        })
    }

    /// Undoes what `attempt` may still acquire.
    pub(super) fn undo_when_done(
        self: &Arc<Self>,
        request: AcquireRequest,
        attempt: impl Future<Output = super::Settled<Option<super::Grant>>> + Send + 'static,
    ) -> BoxFuture<'static, ()> {
        let client = Arc::clone(self);
        let task = self.undoing.tasks.spawn(async move {
            let settled = attempt.await;
            let undo = match settled.result {
                Ok(Some(_)) => Some(client.undo(&request)),
                _ => settled.undo,
            };
            if let Some(undo) = undo {
                undo.await;
            }
        });
        Box::pin(async move {
            let _ = timeout(PATIENCE, task).await;
        })
    }

    async fn release_for_sure(&self, lock_id: LockId, give_up: Instant) {
        let mut delay = FIRST_DELAY;
        let mut missed = false;
        while Instant::now() < give_up && !self.undoing.given_up.load(Ordering::Relaxed) {
            let outcome = {
                let _permit = self.undoing.permits.acquire().await;
                self.backend.release(lock_id).await
            };
            match outcome {
                Ok(ReleaseOutcome::Released) => return,
                Ok(ReleaseOutcome::Missed(_)) if missed => return,
                Ok(ReleaseOutcome::Missed(_)) => {
                    missed = true;
                    sleep(SECOND_LOOK).await;
                }
                Err(_) => {
                    sleep(delay.mul_f64(rand::random_range(0.5..1.0))).await;
                    delay = (delay * 2).min(MAX_DELAY);
                }
            }
        }
    }
}
