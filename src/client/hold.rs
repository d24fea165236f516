//! Keeping a lock alive: a heartbeat that does not depend on the caller's event loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Client;
use crate::backend::ExtendOutcome;
use crate::error::{Error, ErrorCode};
use crate::lock::{LockId, Ttl};

/// A heartbeat under way.
#[derive(Clone, Default)]
pub struct Hold {
    expires_at_ms: Arc<AtomicU64>,
    pub stop: CancellationToken,
}

impl From<CancellationToken> for Hold {
    fn from(stop: CancellationToken) -> Self {
        Self {
            stop,
            ..Self::default()
        }
    }
}

impl Hold {
    /// The expiry that the last heartbeat set; 0 before the first one.
    pub fn expires_at_ms(&self) -> u64 {
        self.expires_at_ms.load(Ordering::Relaxed)
    }
}

/// After a failed heartbeat the next follows sooner: there is less time left.
const RETRY_AFTER: Duration = Duration::from_millis(500);

impl Client {
    /// Extends the lock three times in each TTL until it is stopped (`None`) or lost.
    pub async fn hold(
        self: Arc<Self>,
        lock_id: LockId,
        ttl: Ttl,
        valid_until: std::time::Instant,
        hold: Hold,
    ) -> Option<Error> {
        let interval = ttl.duration() / 3;
        let mut deadline = Instant::from_std(valid_until);
        let left = deadline.saturating_duration_since(Instant::now());
        let mut next = Instant::now() + interval.min(left / 2);
        let mut last_error = None;
        loop {
            tokio::select! {
                biased;
                () = hold.stop.cancelled() => return None,
                () = sleep_until(deadline) => return Some(expired(last_error)),
                () = sleep_until(next) => {}
            }
            let started = Instant::now();
            let client = Arc::clone(&self);
            // A task of its own: what was sent to a server is not abandoned half-way.
            let mut extend = tokio::spawn(async move { client.extend(lock_id, ttl).await });
            let outcome = tokio::select! {
                biased;
                () = hold.stop.cancelled() => return None,
                outcome = &mut extend => outcome,
                () = sleep_until(deadline) => return Some(expired(last_error)),
            };
            match outcome {
                Ok(Ok(ExtendOutcome::Extended { expires_at_ms })) => {
                    hold.expires_at_ms.store(expires_at_ms, Ordering::Relaxed);
                    deadline = started + ttl.duration();
                    next = started + interval;
                    last_error = None;
                }
                Ok(Ok(ExtendOutcome::Missed(_))) => {
                    return Some(lost(
                        "The lock was lost: it had expired or was released elsewhere",
                    ));
                }
                Ok(Err(error)) => {
                    last_error = Some(error);
                    next = Instant::now() + RETRY_AFTER.min(interval);
                }
                Err(_) => return Some(lost("The lock was lost: its heartbeat failed")),
            }
        }
    }
}

fn expired(last_error: Option<Error>) -> Error {
    let error = lost("The lock was lost: it could not be extended before it expired");
    match last_error {
        Some(cause) => error.cause(cause),
        None => error,
    }
}

fn lost(message: &str) -> Error {
    Error::new(ErrorCode::LockLost, message)
}
