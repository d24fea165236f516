//! The connections of a backend. There are never more than `poolSize`, whatever they are used for.
//!
//! A pool that is large enough reserves one connection for listening. Requests share the others. Any
//! request may take any of those but one, which is left to urgent requests: a lock whose heartbeat
//! waits behind other requests would expire although its server is healthy. If requests have a
//! single connection, both kinds share it, and only one request that is not urgent queues for it at
//! a time.

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::connector::Connector;
use super::dialer::Dialer;
use super::request::Priority;
use crate::backend::postgres::connection::{Connection, NotificationHandler, ignore_notifications};
use crate::error::{Error, Result};

/// The smallest pool with a connection that listens: two are left for requests.
const MIN_SIZE_TO_LISTEN: usize = 3;

#[derive(Clone)]
pub(super) struct Pool(Arc<Shared>);

struct Shared {
    connector: Connector,
    can_listen: bool,
    /// How many connections requests may have.
    size: usize,
    /// A permit for each of them.
    any: Arc<Semaphore>,
    /// Requests that are not urgent need one of these too. There is one less.
    normal: Arc<Semaphore>,
    /// The permit for the connection that listens.
    listener: Arc<Semaphore>,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// The one that was used last is taken first, because it is warm, here and in the server.
    connections: Vec<(Arc<Connection>, Instant)>,
    closed: bool,
}

/// The right to have one connection.
struct Permit {
    _any: OwnedSemaphorePermit,
    _normal: Option<OwnedSemaphorePermit>,
}

/// A connection in use. It returns to the pool when this is dropped.
pub(super) struct PooledConnection {
    connection: Arc<Connection>,
    discarded: bool,
    shared: Arc<Shared>,
    _permit: Permit,
}

/// A connection that never returns to the pool, because what it is used for would disturb others.
pub(crate) struct DedicatedConnection {
    connection: Connection,
    _permit: Permit,
}

/// A pool that may be gone.
pub(super) struct WeakPool(Weak<Shared>);

impl WeakPool {
    pub(super) fn upgrade(&self) -> Option<Pool> {
        self.0.upgrade().map(Pool)
    }
}

impl Pool {
    /// `size` bounds all connections.
    pub(super) fn new(connector: Connector, size: usize) -> Self {
        let can_listen = size >= MIN_SIZE_TO_LISTEN;
        let size = size - usize::from(can_listen);
        Self(Arc::new(Shared {
            connector,
            can_listen,
            size,
            any: Arc::new(Semaphore::new(size)),
            normal: Arc::new(Semaphore::new(size.saturating_sub(1).max(1))),
            listener: Arc::new(Semaphore::new(usize::from(can_listen))),
            idle: Mutex::default(),
        }))
    }

    pub(super) fn can_listen(&self) -> bool {
        self.0.can_listen
    }

    /// How many connections requests may have.
    pub(super) fn size(&self) -> usize {
        self.0.size
    }

    pub(super) fn downgrade(&self) -> WeakPool {
        WeakPool(Arc::downgrade(&self.0))
    }

    pub(super) fn connector(&self) -> &Connector {
        &self.0.connector
    }

    pub(super) fn dialer(&self) -> &Dialer {
        &self.0.connector.dialer
    }

    /// Returns a connection, and whether the server had to be reached first. Waits for one until
    /// `deadline`, or for `connectTimeoutMs` while the server is away.
    pub(super) async fn take(
        &self,
        priority: Priority,
        deadline: Instant,
    ) -> Result<(PooledConnection, bool)> {
        let started = Instant::now();
        let permit = self.permit(priority, deadline).await?;
        let found = self.pop_idle();
        let is_new = found.is_none();
        let connection = match found {
            Some(connection) => connection,
            None => Arc::new(self.0.connector.connect(started).await?),
        };
        let was_away = Instant::now() >= deadline;
        let pooled = PooledConnection {
            connection,
            discarded: false,
            shared: Arc::clone(&self.0),
            _permit: permit,
        };
        Ok((pooled, is_new || was_away))
    }

    /// Opens a connection without settings and prepared statements, for a short time.
    pub(super) async fn open_dedicated(&self, deadline: Instant) -> Result<DedicatedConnection> {
        let permit = match Arc::clone(&self.0.listener).try_acquire_owned() {
            Ok(permit) => Permit {
                _any: permit,
                _normal: None,
            },
            Err(_) => {
                let permit = self.permit(Priority::Normal, deadline).await?;
                self.close_excess_idle();
                permit
            }
        };
        self.open_bare(permit, ignore_notifications()).await
    }

    /// Opens the connection that listens.
    pub(super) async fn open_listener(
        &self,
        on_notification: NotificationHandler,
    ) -> Result<DedicatedConnection> {
        let waiting = Arc::clone(&self.0.listener).acquire_owned();
        let permit = match timeout(self.0.connector.connect_timeout, waiting).await {
            Ok(permit) => permit.map_err(|_| closed())?,
            Err(_) => return Err(self.exhausted()),
        };
        let permit = Permit {
            _any: permit,
            _normal: None,
        };
        self.open_bare(permit, on_notification).await
    }

    async fn open_bare(
        &self,
        permit: Permit,
        on_notification: NotificationHandler,
    ) -> Result<DedicatedConnection> {
        Ok(DedicatedConnection {
            connection: self.0.connector.open_bare(on_notification).await?,
            _permit: permit,
        })
    }

    pub(super) fn close(&self) {
        let mut idle = self.0.idle.lock();
        idle.closed = true;
        let connections = std::mem::take(&mut idle.connections);
        drop(idle);
        drop(connections);
        self.0.any.close();
        self.0.normal.close();
        self.0.listener.close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.idle.lock().closed
    }

    /// Closes the connections that have been idle for at least `limit`.
    pub(super) fn close_idle(&self, limit: Duration) {
        let mut idle = self.0.idle.lock();
        let old: Vec<_> = idle
            .connections
            .extract_if(.., |(_, since)| since.elapsed() >= limit)
            .collect();
        drop(idle);
        drop(old);
    }

    /// Waits for a permit until `deadline`, or for `connectTimeoutMs` while the server is away.
    async fn permit(&self, priority: Priority, deadline: Instant) -> Result<Permit> {
        let started = Instant::now();
        let connector = &self.0.connector;
        let give_up = started + connector.connect_timeout;
        let mut waiting = Box::pin(self.wait_for_permit(priority));
        let mut limit = deadline.min(give_up);
        loop {
            if let Ok(permit) = timeout_at(limit, &mut waiting).await {
                return permit.map_err(|_| closed());
            }
            let failure = connector.last_failure_on_giving_up(started);
            limit = if failure.is_some() { give_up } else { deadline };
            if Instant::now() >= limit {
                return Err(failure.unwrap_or_else(|| self.exhausted()));
            }
        }
    }

    async fn wait_for_permit(&self, priority: Priority) -> Result<Permit, AcquireError> {
        let normal = match priority {
            Priority::Normal => Some(Arc::clone(&self.0.normal).acquire_owned().await?),
            Priority::Urgent => None,
        };
        Ok(Permit {
            _normal: normal,
            _any: Arc::clone(&self.0.any).acquire_owned().await?,
        })
    }

    fn pop_idle(&self) -> Option<Arc<Connection>> {
        loop {
            let (connection, _) = self.0.idle.lock().connections.pop()?;
            if self.dialer().is_usable(&connection) {
                return Some(connection);
            }
        }
    }

    /// Closes idle connections that have no permit left. The caller has taken one to open another.
    fn close_excess_idle(&self) {
        let mut idle = self.0.idle.lock();
        let permits = self.0.any.available_permits();
        let excess = idle.connections.len().saturating_sub(permits);
        let unused: Vec<_> = idle.connections.drain(..excess).collect();
        drop(idle);
        drop(unused);
    }

    /// The error of a request that got no connection in time.
    pub(super) fn exhausted(&self) -> Error {
        Error::timeout(format!(
            "No connection to {} was free in time: all of them are in use (poolSize)",
            self.dialer().server()
        ))
    }
}

fn closed() -> Error {
    Error::invalid_argument("This backend is closed: create a new one")
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
        let connection = &self.connection;
        let dialer = &self.shared.connector.dialer;
        if self.discarded || connection.awaits_answer() || !dialer.is_usable(connection) {
            return;
        }
        let mut idle = self.shared.idle.lock();
        if !idle.closed {
            idle.connections
                .push((Arc::clone(connection), Instant::now()));
        }
    }
}

impl Deref for DedicatedConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}
