//! Retries while a server is briefly away: one rule for every store that is reached over a network.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::error::{Error, ErrorCode, Result};

const FIRST_DELAY: Duration = Duration::from_millis(20);
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Delays that double, with jitter.
pub(crate) struct Backoff {
    delay: Duration,
    longest: Duration,
}

impl Backoff {
    /// A caller that waits for `patience` sees several attempts, whenever it joins.
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            delay: FIRST_DELAY,
            longest: MAX_DELAY.min(patience / 4).max(FIRST_DELAY),
        }
    }

    pub(crate) async fn wait(&mut self) {
        sleep(self.delay.mul_f64(rand::random_range(0.5..1.0))).await;
        self.delay = (self.delay * 2).min(self.longest);
    }
}

/// Returns whether a later attempt may succeed: the server could not be reached, is starting or is
/// shutting down, and the request certainly had no effect.
pub(crate) fn is_away(error: &Error) -> bool {
    error.code == ErrorCode::ServiceUnavailable && !error.outcome_unknown
}

/// Repeats `attempt` while the server [is away](is_away), for at most `patience`. Then the last error
/// is returned, or what `timed_out` says if no attempt has ended by then.
pub(crate) async fn keep_trying<T, F: Future<Output = Result<T>>>(
    patience: Duration,
    mut attempt: impl FnMut() -> F,
    timed_out: impl FnOnce() -> Error,
) -> Result<T> {
    let give_up = Instant::now() + patience;
    let mut backoff = Backoff::new(patience);
    let mut failure = None;
    let trying = async {
        loop {
            match attempt().await {
                Err(error) if is_away(&error) => failure = Some(error),
                result => return result,
            }
            backoff.wait().await;
        }
    };
    match timeout_at(give_up, trying).await {
        Ok(result) => result,
        Err(_) => Err(failure.unwrap_or_else(timed_out)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> Error {
        Error::unavailable("refused")
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_comes_back_is_found() {
        let started = Instant::now();
        let up = started + Duration::from_secs(3);
        let attempt = || async move {
            match Instant::now() >= up {
                true => Ok(()),
                false => Err(away()),
            }
        };
        let result = keep_trying(Duration::from_secs(5), attempt, away).await;
        assert_eq!(result, Ok(()));
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stays_away_is_given_up_with_the_reason() {
        let started = Instant::now();
        let attempt = || async { Err::<(), _>(away()) };
        let silent = || Error::timeout("silent");
        let result = keep_trying(Duration::from_secs(5), attempt, silent).await;
        assert_eq!(result, Err(away()));
        assert_eq!(started.elapsed().as_secs(), 5);
        let attempt = std::future::pending::<Result<()>>;
        let result = keep_trying(Duration::from_secs(5), attempt, silent).await;
        assert_eq!(result, Err(silent()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_get_better_is_told_at_once() {
        for error in [
            away().outcome_unknown(),
            Error::new(ErrorCode::AuthFailed, "wrong password"),
            Error::timeout("no answer"),
        ] {
            let mut attempts = 0;
            let attempt = || {
                attempts += 1;
                std::future::ready(Err::<(), _>(error.clone()))
            };
            let result = keep_trying(Duration::from_secs(5), attempt, away).await;
            assert_eq!((result, attempts), (Err(error), 1));
        }
    }
}
