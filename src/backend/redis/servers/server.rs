//! The servers that are connected.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::dialer::Dialer;
use crate::backend::redis::config::Node;
use crate::backend::redis::connection::Connection;
use crate::backend::redis::error;
use crate::backend::redis::format::scripts::Call;
use crate::error::Result;
use crate::net::event_loop::EventLoop;

/// The connections to one server.
pub(crate) struct Server {
    /// Served by tokio: for heartbeats and error recovery, and where there is no event loop.
    pub(crate) background: Connection,
    /// Served by Node's event loop, for requests of JavaScript: no other thread has to be woken for
    /// them, which often costs more than the request. It ends with `background`.
    event_loop: Arc<Mutex<Option<Arc<Connection>>>>,
    has_tried_event_loop: AtomicBool,
}

impl Server {
    pub(super) fn new(background: Connection) -> Arc<Self> {
        Arc::new(Self {
            background,
            event_loop: Arc::default(),
            has_tried_event_loop: AtomicBool::new(false),
        })
    }

    /// Runs a script, over the connection of the event loop if that can send it. None as in
    /// [`Answer`](crate::backend::redis::connection::Answer).
    pub(crate) async fn call(&self, call: &Call<'_>) -> Result<Option<Value>> {
        let sent = self
            .event_loop
            .lock()
            .as_ref()
            .and_then(|own| own.send(call));
        match sent {
            Some(answer) => answer.await.map_err(|_| error::lost().outcome_unknown())?,
            // Boxed, so that the future of the usual case stays small.
            None => Box::pin(self.background.call(call)).await,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.background.is_over()
    }

    /// Returns a token that is cancelled when the server can no longer be used.
    pub(crate) fn over(&self) -> CancellationToken {
        self.background.over()
    }

    /// Opens the connection for the event loop, in the background and only once. If that fails, the
    /// other connection sends everything.
    pub(crate) fn connect_event_loop(
        &self,
        dialer: &Dialer,
        event_loop: Arc<dyn EventLoop>,
        limit: Duration,
    ) {
        if self.has_tried_event_loop.swap(true, Ordering::Relaxed) {
            return;
        }
        let dialer = dialer.for_another();
        let (node, over) = (self.background.node().clone(), self.over());
        let slot = Arc::clone(&self.event_loop);
        tokio::spawn(async move {
            let dialling = timeout(limit, dialer.dial_on(&node, Some(event_loop)));
            let Some(Ok(Ok(connection))) = over.run_until_cancelled(dialling).await else {
                return;
            };
            let connection = Arc::new(connection);
            connection.cancel_when_broken(over.clone());
            *slot.lock() = Some(Arc::clone(&connection));
            over.cancelled().await;
            *slot.lock() = None;
            connection.retire().await;
        });
    }
}

/// The connected servers of a cluster: shards that are on the same server share its connections, which
/// end when no shard uses them any more.
#[derive(Default)]
pub(crate) struct Pool(Mutex<HashMap<Node, Arc<PooledServer>>>);

/// Locked while one shard connects, so that other shards wait for the same connection.
type PooledServer = tokio::sync::Mutex<Weak<Server>>;

impl Pool {
    /// Returns the server at this address, and connects to it if nobody has.
    pub(super) async fn get(&self, dialer: &Dialer, node: &Node) -> Result<Arc<Server>> {
        let pooled = Arc::clone(self.0.lock().entry(node.clone()).or_default());
        let mut pooled = pooled.lock().await;
        if let Some(server) = usable(&pooled) {
            return Ok(server);
        }
        let server = Server::new(dialer.dial(node).await?);
        *pooled = Arc::downgrade(&server);
        Ok(server)
    }

    /// Returns the addresses of the connected servers.
    pub(super) fn connected(&self) -> Vec<Node> {
        let servers = self.0.lock();
        let connected = servers.iter().filter(|(_, pooled)| {
            let pooled = pooled.try_lock();
            pooled.is_ok_and(|pooled| usable(&pooled).is_some())
        });
        connected.map(|(node, _)| node.clone()).collect()
    }
}

fn usable(server: &Weak<Server>) -> Option<Arc<Server>> {
    server.upgrade().filter(|server| !server.is_over())
}
