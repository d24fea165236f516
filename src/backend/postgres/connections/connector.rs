//! Connects although the server may be away: how long to try, and what the error says after that.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::dialer::Dialer;
use crate::backend::backoff::{is_away, keep_trying};
use crate::backend::postgres::connection::{Connection, NotificationHandler};
use crate::backend::unreachable::{gave_up_after, trying_for};
use crate::error::{Error, ErrorCode, Result};

pub(super) struct Connector {
    pub dialer: Dialer,
    /// How long a request waits for a server that is away.
    pub connect_timeout: Duration,
    /// None if the last attempt to connect succeeded.
    last_failure: Mutex<Option<Failure>>,
}

#[derive(Clone)]
struct Failure {
    error: Error,
    /// When the request that failed began to try.
    since: Instant,
}

impl Connector {
    pub(super) fn new(dialer: Dialer, connect_timeout: Duration) -> Self {
        Self {
            dialer,
            connect_timeout,
            last_failure: Mutex::default(),
        }
    }

    /// Returns why there is no connection at the moment. None if the last attempt succeeded.
    pub(super) fn last_failure(&self) -> Option<Error> {
        let Failure { error, since } = self.last_failure.lock().clone()?;
        Some(trying_for(error, since.elapsed()))
    }

    /// Returns the same for a request that gives up after it has waited since `started`.
    pub(super) fn last_failure_on_giving_up(&self, started: Instant) -> Option<Error> {
        let Failure { error, .. } = self.last_failure.lock().clone()?;
        Some(giving_up(error, started))
    }

    /// Opens a connection for the pool, for a request that has waited since `started`. It tries for
    /// `connectTimeoutMs`, counted from `started` if the server is already known to be away.
    pub(super) async fn connect(&self, started: Instant) -> Result<Connection> {
        let mut since = Instant::now();
        if let Some(error) = self.last_failure_on_giving_up(started) {
            if started.elapsed() >= self.connect_timeout {
                return Err(error);
            }
            since = started;
        }
        let attempt = || async {
            let opened = self.dialer.open().await;
            self.note(&opened, since);
            opened
        };
        let result = self.keep_trying(since, attempt).await;
        self.note(&result, since);
        result.map_err(|error| give_up_if_temporary(error, since))
    }

    /// Opens a connection without settings and prepared statements.
    pub(super) async fn open_bare(
        &self,
        on_notification: NotificationHandler,
    ) -> Result<Connection> {
        timeout(self.connect_timeout, self.dialer.open_bare(on_notification))
            .await
            .unwrap_or_else(|_| Err(self.dialer.timed_out()))
    }

    /// Repeats an attempt while the server is away.
    pub(super) async fn keep_trying<T, F: Future<Output = Result<T>>>(
        &self,
        since: Instant,
        attempt: impl FnMut() -> F,
    ) -> Result<T> {
        let time_left = (since + self.connect_timeout).saturating_duration_since(Instant::now());
        keep_trying(time_left, attempt, || self.dialer.timed_out()).await
    }

    fn note(&self, result: &Result<Connection>, since: Instant) {
        *self.last_failure.lock() = result.as_ref().err().map(|error| Failure {
            error: error.clone(),
            since,
        });
    }
}

/// Adds how long we tried to an error that is reported only after `connectTimeoutMs`. Other errors are
/// reported at once and stay as they are.
pub(super) fn give_up_if_temporary(error: Error, started: Instant) -> Error {
    let timed_out = error.code == ErrorCode::NetworkTimeout && error.details.is_empty();
    if is_away(&error) || timed_out {
        giving_up(error, started)
    } else {
        error
    }
}

fn giving_up(error: Error, started: Instant) -> Error {
    gave_up_after(error, started.elapsed(), Some("connectTimeoutMs"))
}
