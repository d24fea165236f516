//! Connects once to each server: several shards of a cluster may be on one. The connections are made
//! when they are first needed, and end when nobody uses them any more.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::dialer::Dialer;
use super::server::Server;
use crate::backend::redis::config::Node;
use crate::error::Result;

#[derive(Default)]
pub(crate) struct Pool(Mutex<HashMap<Node, Arc<Shared>>>);

/// Locked while one caller dials, so that others wait for the same connection.
type Shared = tokio::sync::Mutex<Weak<Server>>;

impl Pool {
    /// As [`Dialer::dial`], unless there is one.
    pub(crate) async fn get(&self, dialer: &Dialer, node: &Node) -> Result<Arc<Server>> {
        let shared = Arc::clone(self.0.lock().entry(node.clone()).or_default());
        let mut shared = shared.lock().await;
        if let Some(server) = usable(&shared) {
            return Ok(server);
        }
        let server = Server::new(dialer.dial(node).await?);
        *shared = Arc::downgrade(&server);
        Ok(server)
    }

    /// The servers that there are connections to.
    pub(crate) fn connected(&self) -> Vec<Node> {
        let servers = self.0.lock();
        let connected = servers.iter().filter(|(_, shared)| {
            let shared = shared.try_lock();
            shared.is_ok_and(|shared| usable(&shared).is_some())
        });
        connected.map(|(node, _)| node.clone()).collect()
    }
}

fn usable(shared: &Weak<Server>) -> Option<Arc<Server>> {
    shared.upgrade().filter(|server| !server.is_over())
}
