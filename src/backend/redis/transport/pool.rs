//! One connection to each server, for all who need one: several places of a cluster may be on one
//! server. It is made when it is first needed, and over when nobody has it any more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::connection::Connection;
use super::dialer::Dialer;
use crate::backend::redis::config::Node;
use crate::error::Result;

#[derive(Default)]
pub(crate) struct Pool(Mutex<HashMap<Node, Arc<Shared>>>);

/// Locked while somebody dials, for all who want the same.
type Shared = tokio::sync::Mutex<Weak<Connection>>;

impl Pool {
    /// As [`Dialer::dial`], unless there is one.
    pub(crate) async fn get(&self, dialer: &Dialer, node: &Node) -> Result<Arc<Connection>> {
        let shared = Arc::clone(self.lock().entry(node.clone()).or_default());
        let mut shared = shared.lock().await;
        if let Some(connection) = usable(&shared) {
            return Ok(connection);
        }
        let connection = Arc::new(dialer.dial(node).await?);
        *shared = Arc::downgrade(&connection);
        Ok(connection)
    }

    /// The servers that there are connections to.
    pub(crate) fn connected(&self) -> Vec<Node> {
        let servers = self.lock();
        let connected = servers.iter().filter(|(_, shared)| {
            let shared = shared.try_lock();
            shared.is_ok_and(|shared| usable(&shared).is_some())
        });
        connected.map(|(node, _)| node.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Node, Arc<Shared>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn usable(shared: &Weak<Connection>) -> Option<Arc<Connection>> {
    shared.upgrade().filter(|connection| !connection.is_over())
}
