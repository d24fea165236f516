//! The way to the server that has a shard.

use std::sync::Arc;

use redis::ServerError;
use tokio::time::timeout;

use super::dialer::Dialer;
use super::server::Server;
use super::topology::Topology;
use crate::backend::redis::connection::Connection;
use crate::backend::redis::error;
use crate::error::Result;

pub(crate) struct Route {
    pub(crate) topology: Arc<Topology>,
    pub(crate) shard: usize,
    pub(crate) dialer: Dialer,
}

impl Route {
    pub(crate) async fn connect(&self) -> Result<Arc<Server>> {
        self.limited(self.topology.connect(self.shard, &self.dialer))
            .await
    }

    /// Connects to the server to which the slot is being moved, as a refusal says.
    pub(crate) async fn connect_elsewhere(&self, refused: &ServerError) -> Result<Connection> {
        let node = match &*self.topology {
            Topology::Cluster(cluster) => cluster.node(address_in(refused)),
            _ => None,
        };
        let node = node.ok_or_else(error::unexpected_reply)?;
        self.limited(self.dialer.dial(&node)).await
    }

    /// Notes that the shard has moved, as a refusal says.
    pub(crate) fn note_move(&self, refused: &ServerError) {
        if let Topology::Cluster(cluster) = &*self.topology {
            cluster.moved(self.shard, address_in(refused));
        }
    }

    async fn limited<T>(&self, connecting: impl Future<Output = Result<T>>) -> Result<T> {
        let connected = timeout(self.dialer.connect_timeout, connecting).await;
        connected.unwrap_or_else(|_| Err(self.dialer.timed_out()))
    }
}

/// Returns the address in `MOVED slot address`.
fn address_in(refused: &ServerError) -> &str {
    refused
        .details()
        .and_then(|details| details.split_ascii_whitespace().nth(1))
        .unwrap_or_default()
}
