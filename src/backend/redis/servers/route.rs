//! The way to the server that has a shard.

use std::sync::Arc;
use std::time::Duration;

use redis::ServerError;
use tokio::time::timeout;

use super::dialer::Dialer;
use super::server::Server;
use super::topology::Topology;
use crate::backend::redis::connection::Connection;
use crate::error::Result;

pub(crate) struct Route {
    pub(crate) topology: Arc<Topology>,
    pub(crate) shard: usize,
    pub(crate) dialer: Dialer,
    pub(crate) connect_timeout: Duration,
}

impl Route {
    /// Returns a route for each shard.
    pub(crate) fn to_all(
        shards: usize,
        topology: &Arc<Topology>,
        dialer: &Dialer,
        connect_timeout: Duration,
    ) -> impl Iterator<Item = Self> {
        (0..shards).map(move |shard| Self {
            topology: Arc::clone(topology),
            shard,
            dialer: dialer.for_another(),
            connect_timeout,
        })
    }

    pub(crate) async fn connect(&self) -> Result<Arc<Server>> {
        // If several servers can tell the way, a dead one must leave time for the others.
        let limit = self.connect_timeout / 3;
        self.limited(self.topology.connect(self.shard, &self.dialer, limit))
            .await
    }

    /// Connects to the server to which the slot is being moved, as a refusal says.
    pub(crate) async fn connect_elsewhere(&self, refused: &ServerError) -> Result<Connection> {
        self.limited(self.topology.connect_to(&self.dialer, address_in(refused)))
            .await
    }

    /// Notes that the shard has moved, as a refusal says.
    pub(crate) fn note_move(&self, refused: &ServerError) {
        self.topology.moved(self.shard, address_in(refused));
    }

    async fn limited<T>(&self, connecting: impl Future<Output = Result<T>>) -> Result<T> {
        let connected = timeout(self.connect_timeout, connecting).await;
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
