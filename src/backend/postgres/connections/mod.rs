//! Sends a request: takes a connection, sends a message and waits for the answer, all before a deadline.
//!
//! - [`pool`] shares the connections, [`connector`] waits for a server that is away, [`dialer`] opens one
//!   connection, [`tls`] encrypts it
//! - [`request`] says how urgent a request is and whether it may be repeated

mod connector;
mod dialer;
mod pool;
mod request;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::SimpleQueryRow;

use self::connector::{Connector, give_up_if_temporary};
use self::dialer::Dialer;
use self::pool::{Pool, PooledConnection, WeakPool};
use self::request::BlockedRetries;
use super::config::Checked;
use super::connection::{Connection, NotificationHandler, rows_of};
use super::error;
use super::sql::{Call, Statements};
use crate::backend::backoff::Backoff;
use crate::error::{Error, ErrorCode, Result};

pub(super) use self::pool::DedicatedConnection;
pub(super) use self::request::RequestKind;

/// The pause before a request is sent again that was blocked by a database lock of another session.
const BLOCKED_PAUSE: Duration = Duration::from_millis(25);

#[derive(Clone)]
pub(super) struct Connections {
    pool: Pool,
    blocked_retries: Arc<BlockedRetries>,
    operation_timeout: Duration,
    /// How long before us the server gives up, so that its answer still arrives in time.
    margin: Duration,
    can_listen: bool,
}

/// The outcome of one message.
enum Exchange {
    Done(Result<Vec<SimpleQueryRow>>),
    /// The session does not have the prepared statements, and nothing was run.
    NotPrepared,
}

impl Connections {
    pub(super) fn new(config: Checked) -> Self {
        let statements = Statements::new(&config.locks, &config.counters, config.labelled);
        let margin = (config.operation_timeout / 5).min(Duration::from_secs(1));
        let mut target = config.target;
        target.limit_each_host(config.connect_timeout);
        let dialer = Dialer::new(
            target,
            statements,
            config.credentials,
            config.operation_timeout - margin,
            config.prepare,
        );
        let connector = Connector::new(dialer, config.connect_timeout);
        let pool = Pool::new(connector, config.pool_size);
        tokio::spawn(close_idle(pool.downgrade(), config.idle_timeout));
        Self {
            // A pooler that is known to keep no session would not keep that one either.
            can_listen: config.prepare && pool.can_listen(),
            blocked_retries: Arc::new(BlockedRetries::new(pool.size())),
            pool,
            operation_timeout: config.operation_timeout,
            margin,
        }
    }

    pub(super) fn statements(&self) -> &Statements {
        self.pool.dialer().statements()
    }

    /// Whether the pool has a connection to spare that listens for notifications.
    pub(super) fn can_listen(&self) -> bool {
        self.can_listen
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }

    /// Returns why there is no connection at the moment. None if the last attempt succeeded.
    pub(super) fn last_failure(&self) -> Option<Error> {
        self.pool.connector().last_failure()
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

    /// Runs the statements as one transaction, in one round trip, and returns the rows. While another
    /// session holds a database lock that is needed, it tries again, until `deadline`.
    pub(super) async fn run(
        &self,
        kind: RequestKind,
        deadline: Instant,
        call: Call<'_>,
    ) -> Result<Vec<SimpleQueryRow>> {
        self.send(kind, deadline, |connection, time_left| {
            self.pool.dialer().write(connection, call, time_left)
        })
        .await
    }

    /// Like [`run`](Self::run), and returns the last row.
    pub(super) async fn run_for_row(
        &self,
        kind: RequestKind,
        call: Call<'_>,
    ) -> Result<Option<SimpleQueryRow>> {
        Ok(self.run(kind, self.deadline(), call).await?.pop())
    }

    /// Like [`run`](Self::run), but fails if another session holds a database lock that is needed.
    pub(super) async fn run_unless_blocked(
        &self,
        kind: RequestKind,
        mut deadline: Instant,
        call: Call<'_>,
    ) -> Result<Vec<SimpleQueryRow>> {
        self.try_to_send(kind, &mut deadline, |connection, time_left| {
            self.pool.dialer().write(connection, call, time_left)
        })
        .await
    }

    /// Runs a message of other statements than those of the operations.
    pub(super) async fn query(&self, message: &str) -> Result<Vec<SimpleQueryRow>> {
        let write = |_: &Connection, _| message.to_owned();
        self.send(RequestKind::Maintenance, self.deadline(), write)
            .await
    }

    /// Calls `work` with a connection that nothing else uses.
    pub(super) async fn with_dedicated(
        &self,
        work: impl AsyncFnOnce(&Connection) -> Result<()>,
    ) -> Result<()> {
        let started = Instant::now();
        let attempt = || self.pool.open_dedicated(self.deadline());
        let opened = self.pool.connector().keep_trying(started, attempt).await;
        let connection = opened.map_err(|error| give_up_if_temporary(error, started))?;
        timeout(self.operation_timeout, work(&connection))
            .await
            .unwrap_or_else(|_| Err(self.timed_out()))
    }

    /// Opens the connection that listens, if there [can be](Self::can_listen) one.
    pub(super) async fn open_listener(
        &self,
        on_notification: NotificationHandler,
    ) -> Result<DedicatedConnection> {
        self.pool.open_listener(on_notification).await
    }

    /// Sends a request until it is done or has failed for good. `write` is called with the connection
    /// and how long the server may take.
    async fn send(
        &self,
        kind: RequestKind,
        mut deadline: Instant,
        write: impl Fn(&Connection, Duration) -> String,
    ) -> Result<Vec<SimpleQueryRow>> {
        let mut retry_permit = None;
        let mut blocked = None;
        let mut backoff = Backoff::new(self.operation_timeout);
        loop {
            let error = match self.try_to_send(kind, &mut deadline, &write).await {
                Err(error) if error::is_lock_timeout(&error) => {
                    if retry_permit.is_none() {
                        let permit = self.blocked_retries.of(kind).acquire();
                        retry_permit = timeout_at(deadline, permit).await.ok();
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

    async fn try_to_send(
        &self,
        kind: RequestKind,
        deadline: &mut Instant,
        write: impl Fn(&Connection, Duration) -> String,
    ) -> Result<Vec<SimpleQueryRow>> {
        loop {
            let (connection, had_to_connect) = self.pool.take(kind.priority(), *deadline).await?;
            if had_to_connect {
                // Connecting has a limit of its own, and the request gets all of its time.
                *deadline = self.deadline();
            }
            let time_left = self.time_for_server(*deadline);
            if time_left.is_zero() {
                return Err(self.pool.exhausted());
            }
            let message = write(&connection, time_left);
            match self.exchange(connection, &message, *deadline).await {
                Exchange::Done(result) => return result,
                // This happens once: from now on nothing is prepared any more.
                Exchange::NotPrepared => self.pool.dialer().stop_preparing(),
            }
        }
    }

    async fn exchange(
        &self,
        connection: PooledConnection,
        message: &str,
        deadline: Instant,
    ) -> Exchange {
        match timeout_at(deadline, connection.run(message)).await {
            Ok(Ok(messages)) => Exchange::Done(Ok(rows_of(messages))),
            Ok(Err(cause)) if connection.prepared && error::session_is_shared(&cause) => {
                Exchange::NotPrepared
            }
            Ok(Err(cause)) => {
                if !error::keeps_connection(&cause) {
                    connection.discard();
                }
                Exchange::Done(Err(error::of_request(&cause, self.server())))
            }
            Err(_) => {
                connection.discard();
                // A server that does not answer on one connection does not answer on the others
                // either. Each of those that are idle would cost another request its time.
                self.pool.close_idle(Duration::ZERO);
                Exchange::Done(Err(self.timed_out().outcome_unknown()))
            }
        }
    }

    fn server(&self) -> &str {
        self.pool.dialer().server()
    }

    fn timed_out(&self) -> Error {
        Error::timeout(format!("{} did not answer in time", self.server()))
    }
}

/// Closes connections that nobody has used for a while, for as long as the pool exists.
async fn close_idle(pool: WeakPool, idle_timeout: Duration) {
    loop {
        sleep(idle_timeout / 2).await;
        let Some(pool) = pool.upgrade().filter(|pool| !pool.is_closed()) else {
            return;
        };
        pool.close_idle(idle_timeout);
    }
}
