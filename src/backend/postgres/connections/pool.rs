//! The connections that requests share.
//!
//! There are never more than the pool's size. Any request may take any of them but one, which is left to
//! urgent requests: a lock whose heartbeat waits behind other requests would expire although its server
//! is healthy. If there is a single connection, both kinds share it, and only one request that is not
//! urgent queues for it at a time.

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout_at};

use super::dialer::Dialer;
use crate::backend::postgres::connection::Connection;
use crate::error::{Error, Result};

pub(super) struct Pool {
    pub dialer: Dialer,
    /// A permit for each connection.
    any: Arc<Semaphore>,
    /// Requests that are not urgent need one of these too. There is one less.
    normal: Arc<Semaphore>,
    /// The idle connections, each with the moment since which it is idle. The most recently used one is
    /// taken first, because its caches are warm.
    idle: Mutex<Vec<(Arc<Connection>, Instant)>>,
}

/// A connection in use. It returns to the pool when this is dropped.
pub(super) struct PooledConnection {
    connection: Arc<Connection>,
    discarded: bool,
    pool: Arc<Pool>,
    _permit: Permit,
}

/// The right to have one connection.
struct Permit {
    _any: OwnedSemaphorePermit,
    _normal: Option<OwnedSemaphorePermit>,
}

impl Pool {
    pub(super) fn new(dialer: Dialer, size: usize) -> Self {
        Self {
            dialer,
            any: Arc::new(Semaphore::new(size)),
            normal: Arc::new(Semaphore::new(size.saturating_sub(1).max(1))),
            idle: Mutex::default(),
        }
    }

    /// Returns a connection, and whether the server had to be reached first. Waits for one until
    /// `deadline`, or for `connectTimeoutMs` while the server is away.
    pub(super) async fn take(
        self: &Arc<Self>,
        is_urgent: bool,
        deadline: Instant,
    ) -> Result<(PooledConnection, bool)> {
        let started = Instant::now();
        let permit = self.permit(is_urgent, deadline).await?;
        let found = self.pop_idle();
        let is_new = found.is_none();
        let connection = match found {
            Some(connection) => connection,
            None => Arc::new(self.dialer.connect(started).await?),
        };
        let was_away = Instant::now() >= deadline;
        let pooled = PooledConnection {
            connection,
            discarded: false,
            pool: Arc::clone(self),
            _permit: permit,
        };
        Ok((pooled, is_new || was_away))
    }

    pub(super) fn close(&self) {
        self.any.close();
        self.normal.close();
        self.close_idle(Duration::ZERO);
    }

    /// Closes the connections that have been idle for at least `limit`.
    pub(super) fn close_idle(&self, limit: Duration) {
        let mut idle = self.idle.lock();
        let old: Vec<_> = idle
            .extract_if(.., |(_, since)| since.elapsed() >= limit)
            .collect();
        drop(idle);
        drop(old);
    }

    /// Closes connections that nobody has used for a while, for as long as the pool exists.
    pub(super) async fn close_unused(pool: Weak<Self>, idle_timeout: Duration) {
        loop {
            sleep(idle_timeout / 2).await;
            let Some(pool) = pool.upgrade().filter(|pool| !pool.any.is_closed()) else {
                return;
            };
            pool.close_idle(idle_timeout);
        }
    }

    /// Waits for a permit until `deadline`, or for `connectTimeoutMs` while the server is away.
    async fn permit(&self, is_urgent: bool, deadline: Instant) -> Result<Permit> {
        let started = Instant::now();
        let give_up = started + self.dialer.connect_timeout;
        let mut waiting = Box::pin(self.wait_for_permit(is_urgent));
        let mut limit = deadline.min(give_up);
        loop {
            if let Ok(permit) = timeout_at(limit, &mut waiting).await {
                let closed = "This backend is closed: create a new one";
                return permit.map_err(|_| Error::invalid_argument(closed));
            }
            let failure = self.dialer.last_failure_on_giving_up(started);
            limit = if failure.is_some() { give_up } else { deadline };
            if Instant::now() >= limit {
                return Err(failure.unwrap_or_else(|| self.exhausted()));
            }
        }
    }

    async fn wait_for_permit(&self, is_urgent: bool) -> Result<Permit, AcquireError> {
        let normal = match is_urgent {
            true => None,
            false => Some(Arc::clone(&self.normal).acquire_owned().await?),
        };
        Ok(Permit {
            _normal: normal,
            _any: Arc::clone(&self.any).acquire_owned().await?,
        })
    }

    fn pop_idle(&self) -> Option<Arc<Connection>> {
        loop {
            let (connection, _) = self.idle.lock().pop()?;
            if self.dialer.is_usable(&connection) {
                return Some(connection);
            }
        }
    }

    /// The error of a request that got no connection in time.
    pub(super) fn exhausted(&self) -> Error {
        Error::timeout(format!(
            "No connection to {} was free in time: all of them are in use (poolSize)",
            self.dialer.target.server
        ))
    }
}

impl PooledConnection {
    /// Closes the connection.
    pub(super) fn discard(mut self) {
        self.discarded = true;
    }
}

impl Deref for PooledConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let (connection, pool) = (&self.connection, &self.pool);
        if self.discarded || connection.awaits_answer() || !pool.dialer.is_usable(connection) {
            return;
        }
        let mut idle = pool.idle.lock();
        if !pool.any.is_closed() {
            idle.push((Arc::clone(connection), Instant::now()));
        }
    }
}
