//! Sends a request: takes a connection, sends a message and waits for the answer, all before a deadline.
//!
//! - [`pool`] shares the connections
//! - [`dialer`] opens them, and waits for a server that is away; [`tls`] encrypts them

mod dialer;
mod pool;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::SimpleQueryRow;

use self::dialer::Dialer;
use self::pool::{Pool, PooledConnection};
use super::config::Checked;
use super::connection::{Connection, NotificationHandler, rows_of};
use super::error;
use super::sql::{Arg, Call, Statement, Statements};
use crate::backend::Warnings;
use crate::backend::backoff::Backoff;
use crate::error::{Error, ErrorCode, Result};

/// The smallest pool with a connection that listens: two are left for requests.
const MIN_SIZE_TO_LISTEN: usize = 3;
/// The pause before a request is sent again that was blocked by a database lock of another session.
const BLOCKED_PAUSE: Duration = Duration::from_millis(25);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Acquire,
    Extend,
    Release,
    Read,
    Maintenance,
}

impl RequestKind {
    /// Whether a lock that is held depends on the request.
    fn is_urgent(self) -> bool {
        matches!(self, Self::Extend | Self::Release)
    }

    /// Whether the request can be sent again if its answer is lost, as doing it twice is as good as
    /// once. A second release would report that there is no such lock.
    fn is_repeatable(self) -> bool {
        matches!(self, Self::Extend | Self::Read)
    }
}

pub(crate) struct Connections {
    pool: Arc<Pool>,
    /// Whether one connection is left for listening for notifications.
    pub can_listen: bool,
    /// Limit how many requests retry at the same time because another session holds a database lock.
    /// The others wait until one of them ends, so that most connections stay free for requests that
    /// are not blocked.
    blocked: Semaphore,
    blocked_urgent: Semaphore,
    operation_timeout: Duration,
    /// How long before us the server gives up, so that its answer still arrives in time.
    margin: Duration,
}

impl Connections {
    pub(super) fn new(config: Checked, warnings: Warnings) -> Arc<Self> {
        // A pooler that is known to keep no session would not keep that one either.
        let can_listen = config.prepare && config.pool_size >= MIN_SIZE_TO_LISTEN;
        let size = config.pool_size - usize::from(can_listen);
        let operation_timeout = config.operation_timeout;
        let margin = (operation_timeout / 5).min(Duration::from_secs(1));
        let idle_timeout = config.idle_timeout;
        let dialer = Dialer::new(config, operation_timeout - margin, warnings);
        let pool = Arc::new(Pool::new(dialer, size));
        tokio::spawn(Pool::close_unused(Arc::downgrade(&pool), idle_timeout));
        Arc::new(Self {
            pool,
            can_listen,
            blocked: Semaphore::new((size / 2).max(1)),
            blocked_urgent: Semaphore::new(1),
            operation_timeout,
            margin,
        })
    }

    pub(super) fn statements(&self) -> &Statements {
        &self.dialer().statements
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }

    /// Returns why there is no connection at the moment. None if the last attempt succeeded.
    pub(super) fn last_failure(&self) -> Option<Error> {
        self.dialer().last_failure()
    }

    /// Returns the time by which an operation that begins now must have ended.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.operation_timeout
    }

    /// Whether the server would have time for a request before `deadline`.
    pub(super) fn has_time(&self, deadline: Instant) -> bool {
        !self.time_for_server(deadline).is_zero()
    }

    fn time_for_server(&self, deadline: Instant) -> Duration {
        deadline
            .saturating_duration_since(Instant::now())
            .saturating_sub(self.margin)
    }

    /// Runs one statement, as [`send`](Self::send) does.
    pub(super) async fn run(
        &self,
        kind: RequestKind,
        statement: &Statement,
        args: &[Arg<'_>],
    ) -> Result<Vec<SimpleQueryRow>> {
        self.send(kind, self.deadline(), &[(statement, args)]).await
    }

    /// Runs a message of other statements than those of the operations.
    pub(super) async fn query(&self, message: &str) -> Result<Vec<SimpleQueryRow>> {
        let statement = Statement::unprepared(message.to_owned());
        self.run(RequestKind::Maintenance, &statement, &[]).await
    }

    /// Opens the connection that listens, if there [can be](Self::can_listen) one.
    pub(super) async fn open_listener(
        &self,
        on_notification: NotificationHandler,
    ) -> Result<Connection> {
        self.dialer().open_listener(on_notification).await
    }

    /// Runs the statements as one transaction, in one round trip, and returns the rows. While another
    /// session holds a database lock that is needed, it tries again, until `deadline`.
    pub(super) async fn send(
        &self,
        kind: RequestKind,
        mut deadline: Instant,
        call: Call<'_>,
    ) -> Result<Vec<SimpleQueryRow>> {
        let mut retry_permit = None;
        let mut blocked = None;
        let mut backoff = Backoff::new(self.operation_timeout);
        loop {
            let error = match self.try_to_send(kind, &mut deadline, call).await {
                Err(error) if error::is_lock_timeout(&error) => {
                    if retry_permit.is_none() {
                        let permits = match kind.is_urgent() {
                            true => &self.blocked_urgent,
                            false => &self.blocked,
                        };
                        retry_permit = timeout_at(deadline, permits.acquire()).await.ok();
                    }
                    sleep(BLOCKED_PAUSE.mul_f64(rand::random_range(0.5..1.5))).await;
                    blocked = Some(error.clone());
                    error
                }
                Err(error) if error::is_lost(&error) && kind.is_repeatable() => {
                    backoff.wait().await;
                    error
                }
                // The last attempt had too little time. The reason is what blocked the others.
                Err(error) if error.code == ErrorCode::NetworkTimeout && !error.outcome_unknown => {
                    return Err(blocked.unwrap_or(error));
                }
                result => return result,
            };
            if !self.has_time(deadline) {
                return Err(error);
            }
        }
    }

    /// Like [`send`](Self::send), but fails if another session holds a database lock that is needed.
    /// Moves `deadline` if the server had to be reached first.
    pub(super) async fn try_to_send(
        &self,
        kind: RequestKind,
        deadline: &mut Instant,
        call: Call<'_>,
    ) -> Result<Vec<SimpleQueryRow>> {
        loop {
            let (connection, had_to_connect) = self.pool.take(kind.is_urgent(), *deadline).await?;
            if had_to_connect {
                // Connecting has a limit of its own, and the request gets all of its time.
                *deadline = self.deadline();
            }
            let time_left = self.time_for_server(*deadline);
            if time_left.is_zero() {
                return Err(self.pool.exhausted());
            }
            let message = self.dialer().write(connection.session, call, time_left);
            if let Some(answer) = self.exchange(connection, &message, *deadline).await {
                return answer;
            }
            // This happens once: from now on nothing is prepared any more.
            self.dialer().stop_preparing();
        }
    }

    /// Returns None if the session does not have the prepared statements, and nothing was run.
    async fn exchange(
        &self,
        connection: PooledConnection,
        message: &str,
        deadline: Instant,
    ) -> Option<Result<Vec<SimpleQueryRow>>> {
        let server = &self.dialer().target.server;
        Some(match timeout_at(deadline, connection.run(message)).await {
            Ok(Ok(messages)) => Ok(rows_of(messages)),
            Ok(Err(cause)) => {
                if connection.session.is_prepared && error::session_is_shared(&cause) {
                    return None;
                }
                if !error::keeps_connection(&cause) {
                    connection.discard();
                }
                Err(error::of_request(&cause, server))
            }
            Err(_) => {
                connection.discard();
                // A server that does not answer on one connection does not answer on the others
                // either. Each of those that are idle would cost another request its time.
                self.pool.close_idle(Duration::ZERO);
                Err(Error::timeout(format!("{server} did not answer in time")).outcome_unknown())
            }
        })
    }

    fn dialer(&self) -> &Dialer {
        &self.pool.dialer
    }
}
