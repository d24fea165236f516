//! The servers that are connected.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use redis::Value;
use tokio::time::timeout;

use super::dialer::Dialer;
use crate::backend::redis::config::Node;
use crate::backend::redis::connection::{Connection, is_unknown_script};
use crate::backend::redis::error;
use crate::backend::redis::format::scripts::Call;
use crate::error::Result;
use crate::net::event_loop::EventLoop;

/// The connections to one server.
pub(crate) struct Server {
    /// Served by tokio: for heartbeats and error recovery, and where there is no event loop.
    pub(crate) background: Connection,
    /// Served by Node's event loop, for requests of JavaScript: no other thread has to be woken for
    /// them, which often costs more than the request. It is opened later, and ends with `background`.
    event_loop: Arc<Mutex<Option<Arc<Connection>>>>,
}

impl Server {
    /// Opens the connection for the event loop in the background, if the dialer has one. If that fails,
    /// the other connection sends everything.
    pub(super) fn new(background: Connection, dialer: &Dialer) -> Arc<Self> {
        let server = Self {
            background,
            event_loop: Arc::default(),
        };
        if let Some(event_loop) = dialer.event_loop.clone() {
            server.connect_event_loop(dialer.for_another(), event_loop);
        }
        Arc::new(server)
    }

    /// Runs a script, over the connection of the event loop if that can send it.
    pub(crate) async fn call(&self, call: &Call<'_>) -> Result<Value> {
        let sent = match &*self.event_loop.lock() {
            Some(connection) => connection.send(call),
            None => None,
        };
        let Some(answer) = sent else {
            // Boxed, so that the future of the usual case stays small.
            return Box::pin(self.background.call(call)).await;
        };
        let lost = || error::lost().outcome_unknown();
        match answer.await.map_err(|_| lost())?? {
            Some(answer) if !is_unknown_script(&answer) => Ok(answer),
            _ => Box::pin(self.background.call_with_text(call)).await,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.background.is_over()
    }

    fn connect_event_loop(&self, dialer: Dialer, event_loop: Arc<dyn EventLoop>) {
        let (node, over) = (self.background.node().clone(), self.background.over());
        let slot = Arc::clone(&self.event_loop);
        tokio::spawn(async move {
            let dialling = dialer.dial_on(&node, Some(event_loop));
            let dialling = timeout(dialer.connect_timeout, dialling);
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
        if let Some(server) = pooled.upgrade().filter(|server| !server.is_over()) {
            return Ok(server);
        }
        let server = Server::new(dialer.dial(node).await?, dialer);
        *pooled = Arc::downgrade(&server);
        Ok(server)
    }
}
