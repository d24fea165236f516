//! Undoes an acquire that nobody owns, because it was cancelled, timed out, or its answer was lost. Its
//! lockId is known, so it is released as soon as the server answers again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Client;
use super::acquire::Attempt;
use super::host::Moment;
#[cfg(test)]
use super::simulation::mutation::Mutation;
use crate::backend::ReleaseOutcome;
use crate::lock::time::TIME_TOLERANCE_MS;
use crate::lock::{Key, LockId, Ttl};

/// How long a caller or `close` waits for an undo. The undo continues afterwards.
const MAX_UNDO_WAIT: Duration = Duration::from_secs(10);
/// The pause after the first failed release. It doubles up to [`MAX_RETRY_DELAY`].
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);
/// The pause before a release that found nothing is repeated: the lost acquire may still be on its
/// way to the server.
const RECHECK_AFTER: Duration = Duration::from_millis(500);
/// How many undos run at a time. When a server comes back, there may be thousands.
const MAX_CONCURRENT_UNDOS: usize = 128;

pub(super) struct Undoing {
    tasks: TaskTracker,
    permits: Semaphore,
    given_up: AtomicBool,
}

impl Default for Undoing {
    fn default() -> Self {
        Self {
            tasks: TaskTracker::new(),
            permits: Semaphore::new(MAX_CONCURRENT_UNDOS),
            given_up: AtomicBool::new(false),
        }
    }
}

impl Undoing {
    /// Returns a token for an operation that may have to be undone. `close` waits until it is dropped.
    pub fn token(&self) -> TaskTrackerToken {
        self.tasks.token()
    }
}

impl Client {
    /// Starts the undo. The returned future ends when the undo has, or after [`MAX_UNDO_WAIT`].
    pub(super) fn undo(
        self: &Arc<Self>,
        lock_id: LockId,
        key: &Key,
        ttl: Ttl,
    ) -> BoxFuture<'static, ()> {
        // After this moment the lock has expired by itself.
        let give_up = self.host.now() + ttl.duration() + Duration::from_millis(TIME_TOLERANCE_MS);
        let (client, key) = (Arc::clone(self), key.clone());
        self.in_background(async move {
            client.release_until_certain(lock_id, give_up).await;
            client.queues.released(&key);
        })
    }

    /// Undoes `attempt`, which may still acquire the lock.
    pub(super) fn undo_when_done(
        self: &Arc<Self>,
        key: Key,
        ttl: Ttl,
        attempt: impl Future<Output = Attempt> + Send + 'static,
    ) -> BoxFuture<'static, ()> {
        let client = Arc::clone(self);
        self.in_background(async move {
            let undo = match attempt.await {
                Attempt::Granted(grant) => Some(client.undo(grant.lock_id, &key, ttl)),
                Attempt::Refused(_) => None,
                Attempt::Failed(failure) => failure.undo,
            };
            if let Some(undo) = undo {
                undo.await;
            }
        })
    }

    /// Waits for the undos that are under way, and gives up those that take too long.
    pub(super) async fn finish_undoing(&self) {
        self.undoing.tasks.close();
        tokio::select! {
            biased;
            () = self.undoing.tasks.wait() => {}
            () = self.host.sleep_until(self.host.now() + MAX_UNDO_WAIT) => {}
        }
        self.undoing.given_up.store(true, Ordering::Relaxed);
    }

    /// Runs `work` as a task that `close` waits for. The returned future ends when the task has, or
    /// after [`MAX_UNDO_WAIT`].
    pub(super) fn in_background(
        self: &Arc<Self>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> BoxFuture<'static, ()> {
        let (done, is_done) = oneshot::channel::<()>();
        self.host
            .spawn(Box::pin(self.undoing.tasks.track_future(async move {
                work.await;
                drop(done);
            })));
        let client = Arc::clone(self);
        Box::pin(async move {
            let deadline = client.host.now() + MAX_UNDO_WAIT;
            tokio::select! {
                biased;
                _ = is_done => {}
                () = client.host.sleep_until(deadline) => {}
            }
        })
    }

    /// Releases the lock, and repeats that until it is certain that the lock is gone.
    async fn release_until_certain(&self, lock_id: LockId, give_up: Moment) {
        let mut delay = FIRST_RETRY_DELAY;
        let mut missed = false;
        #[cfg(test)]
        if Mutation::NotUndone.is_on() {
            return;
        }
        while self.host.now() < give_up && !self.undoing.given_up.load(Ordering::Relaxed) {
            let outcome = {
                let _permit = self.undoing.permits.acquire().await;
                self.backend.release(lock_id.into()).await
            };
            let pause = match outcome {
                Ok(ReleaseOutcome::Released) => return,
                Ok(ReleaseOutcome::Missed(_)) if missed => return,
                #[cfg(test)]
                Ok(ReleaseOutcome::Missed(_)) if Mutation::OneLook.is_on() => return,
                Ok(ReleaseOutcome::Missed(_)) => {
                    missed = true;
                    RECHECK_AFTER
                }
                Err(_) => {
                    let pause = delay.mul_f64(0.5 + self.host.random() / 2.0);
                    delay = (delay * 2).min(MAX_RETRY_DELAY);
                    pause
                }
            };
            self.host.sleep_until(self.host.now() + pause).await;
        }
    }
}
