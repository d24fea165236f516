//! Undoing an acquire that nobody owns: cancelled, timed out, or its answer was lost.
//! Its lockId is known, so it can be released as soon as the server answers again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::host::Moment;
#[cfg(test)]
use super::simulation::mutation::Mutation;
use super::{Attempt, Client, Settled};
use crate::backend::ReleaseOutcome;
use crate::lock::time::TIME_TOLERANCE_MS;
use crate::lock::{Key, LockId, Ttl};

/// How long the end of an undo is waited for, by a caller or by `close`; it goes on afterwards.
const PATIENCE: Duration = Duration::from_secs(10);
const FIRST_DELAY: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(2);
/// The lost request may still be on its way, so "not found" is believed only the second time.
const SECOND_LOOK: Duration = Duration::from_millis(500);
/// When a server comes back, thousands may want to undo at once.
const AT_ONCE: usize = 128;

pub(super) struct Undoing {
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
    /// For something that may have to be undone.
    pub fn token(&self) -> TaskTrackerToken {
        self.tasks.token()
    }
}

impl Client {
    /// Starts the undo. The future it returns ends when that is done, or after a while.
    pub(super) fn undo(
        self: &Arc<Self>,
        lock_id: LockId,
        key: &Key,
        ttl: Ttl,
    ) -> BoxFuture<'static, ()> {
        // Later than this the lock has expired by itself.
        let give_up = self.host.now() + ttl.duration() + Duration::from_millis(TIME_TOLERANCE_MS);
        let (client, key) = (Arc::clone(self), key.clone());
        self.in_background(async move {
            client.release_for_sure(lock_id, give_up).await;
            client.queues.released(&key);
        })
    }

    /// Undoes what `attempt` may still acquire.
    pub(super) fn undo_when_done(
        self: &Arc<Self>,
        key: Key,
        ttl: Ttl,
        attempt: impl Future<Output = Settled<Attempt>> + Send + 'static,
    ) -> BoxFuture<'static, ()> {
        let client = Arc::clone(self);
        self.in_background(async move {
            let settled = attempt.await;
            let undo = match settled.result {
                Ok(Attempt::Granted(grant)) => Some(client.undo(grant.lock_id, &key, ttl)),
                _ => settled.undo,
            };
            if let Some(undo) = undo {
                undo.await;
            }
        })
    }

    /// Waits for the undoing that is under way; what takes too long is given up.
    pub(super) async fn finish_undoing(&self) {
        self.undoing.tasks.close();
        tokio::select! {
            biased;
            () = self.undoing.tasks.wait() => {}
            () = self.host.sleep_until(self.host.now() + PATIENCE) => {}
        }
        self.undoing.given_up.store(true, Ordering::Relaxed);
    }

    fn in_background(
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
            let patience = client.host.now() + PATIENCE;
            tokio::select! {
                biased;
                _ = is_done => {}
                () = client.host.sleep_until(patience) => {}
            }
        })
    }

    async fn release_for_sure(&self, lock_id: LockId, give_up: Moment) {
        let mut delay = FIRST_DELAY;
        let mut missed = false;
        #[cfg(test)]
        if Mutation::NotUndone.is_on() {
            return;
        }
        while self.host.now() < give_up && !self.undoing.given_up.load(Ordering::Relaxed) {
            let outcome = {
                let _permit = self.undoing.permits.acquire().await;
                self.backend.release(lock_id).await
            };
            let pause = match outcome {
                Ok(ReleaseOutcome::Released) => return,
                Ok(ReleaseOutcome::Missed(_)) if missed => return,
                #[cfg(test)]
                Ok(ReleaseOutcome::Missed(_)) if Mutation::OneLook.is_on() => return,
                Ok(ReleaseOutcome::Missed(_)) => {
                    missed = true;
                    SECOND_LOOK
                }
                Err(_) => {
                    let pause = delay.mul_f64(0.5 + self.host.random() / 2.0);
                    delay = (delay * 2).min(MAX_DELAY);
                    pause
                }
            };
            self.host.sleep_until(self.host.now() + pause).await;
        }
    }
}
