//! The error of a wait that reached one of its limits. It names the limit, how long the wait really took,
//! and the holder.

use std::time::Duration;

use super::Client;
use super::host::Moment;
use super::queue::Waiter;
use super::wait::Progress;
use crate::error::{Error, ErrorCode};
use crate::lock::Key;

impl Client {
    /// Returns the error of a wait that ended because a holder kept the lock. A caller that waits inside
    /// the callback of the same lock waits for itself. The engine knows which locks are held, but not from
    /// where it is called.
    pub(super) fn timed_out(&self, key: &Key, progress: &Progress, waiter: &Waiter) -> Error {
        let now = self.host.now();
        let (limit, option) = exhausted_limit(progress, now);
        let known = waiter.lease();
        let label = known.as_ref().and_then(|lease| lease.label.as_ref());
        let (holder, advice) = if self.holds_since(key, progress.started) {
            (
                "this process itself held the lock, since before this call".to_owned(),
                "If the call was made inside that lock(), hold() or lead(), it waited for itself, as \
                 a lock is not reentrant: do without the inner lock. Otherwise try",
            )
        } else if let Some(label) = label {
            (format!("it was held by \"{label}\""), "Try")
        } else {
            ("another holder had the lock".to_owned(), "Try")
        };
        let lease = known
            .map(|lease| lease.ends.since(now))
            .filter(|left| !left.is_zero())
            .map(|left| {
                format!(
                    " Its lease ends in {} unless it is extended.",
                    seconds(left)
                )
            })
            .unwrap_or_default();
        failure(
            progress,
            now,
            format!("{limit} while {holder}.{lease} {advice} again later, or raise {option}"),
        )
    }
}

/// Returns the error of a wait that ended while an attempt was unanswered. `obstacle` says why the store
/// does not answer, if that is known.
pub(super) fn unanswered(progress: &Progress, now: Moment, obstacle: Option<Error>) -> Error {
    let (limit, _) = exhausted_limit(progress, now);
    let what = format!("{limit} while the store did not answer the last attempt");
    match obstacle {
        Some(obstacle) => {
            failure(progress, now, format!("{what}. {}", obstacle.message)).because_of(obstacle)
        }
        None => failure(progress, now, what),
    }
}

fn failure(progress: &Progress, now: Moment, reason: String) -> Error {
    let attempts = progress.attempts;
    let times = if attempts == 1 { "attempt" } else { "attempts" };
    let took_ms = progress.waited(now).as_millis();
    Error::new(
        ErrorCode::AcquisitionTimeout,
        format!("Failed to acquire lock after {attempts} {times} in {took_ms} ms: {reason}"),
    )
}

/// Returns the limit that ended the wait, and the option to raise.
fn exhausted_limit(progress: &Progress, now: Moment) -> (String, &'static str) {
    let Some(policy) = progress.policy else {
        return ("the wait ended".to_owned(), "acquisition.timeoutMs");
    };
    match policy.timeout {
        Some(timeout) if progress.is_over(now) => (
            format!("acquisition.timeoutMs ({}) ran out", timeout.as_millis()),
            "acquisition.timeoutMs",
        ),
        _ => (
            format!(
                "acquisition.maxRetries ({}) was reached",
                policy.max_retries
            ),
            "acquisition.maxRetries, or set acquisition.timeoutMs alone",
        ),
    }
}

/// Formats a duration for people: `29.8 s`.
fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
