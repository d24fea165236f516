//! Runs calls on the server that a configuration leads to.

use std::sync::Arc;

use redis::Value;

use super::config::{Deployment, RedisConfig};
use super::format::keys::Keyspace;
use super::format::scripts::Call;
use super::transport::dialer::Dialer;
use super::transport::link::Link;
use super::transport::topology::{Nat, Topology};
use super::watch::Watching;
use crate::backend::tls::Tls;
use crate::backend::{Warnings, Watch};
use crate::error::{Error, Result};
use crate::event_loop::EventLoop;
use crate::lock::LockId;

pub(super) struct Client {
    link: Link,
    watching: Watching,
}

impl Client {
    /// Connects to nothing.
    pub(super) fn open(
        config: RedisConfig,
        keyspace: &Keyspace,
        warnings: Warnings,
        home: Option<Arc<dyn EventLoop>>,
    ) -> Result<Self> {
        let connect_timeout = config.connect_timeout()?;
        let dialer = Dialer {
            operation_timeout: config.operation_timeout()?,
            login: config.login,
            tls: config.tls.map(Tls::new).transpose()?,
            family: config.family,
            pushes: None,
            warnings,
            warned: Arc::default(),
            dialling: Arc::default(),
        };
        let topology = match config.deployment {
            Deployment::Server { node } => Topology::Server(node),
            Deployment::Sentinel {
                sentinels,
                name,
                login,
                tls,
                nat_map,
            } => Topology::Sentinel {
                sentinels,
                name,
                dialer: Box::new(Dialer {
                    login,
                    tls: tls.map(|tls| Tls::new(*tls)).transpose()?,
                    ..dialer.clone()
                }),
                nat: Nat(nat_map),
            },
            Deployment::Cluster { nodes, nat_map } => Topology::Cluster {
                nodes,
                key: keyspace.index_key(LockId::generate())?,
                nat: Nat(nat_map),
                known: Default::default(),
            },
        };
        let topology = Arc::new(topology);
        Ok(Self {
            watching: Watching::new(Arc::clone(&topology), &dialer, connect_timeout),
            link: Link::new(topology, dialer, connect_timeout, home),
        })
    }

    /// What the script answered.
    pub(super) fn run(&self, call: &Call<'_>) -> impl Future<Output = Result<Value>> + Send {
        self.link.run(call)
    }

    pub(super) fn watch(&self, lock_key: &str) -> Box<dyn Watch> {
        self.watching.watch(lock_key)
    }

    /// What went wrong last while calls wait for a connection.
    pub(super) fn obstacle(&self) -> Option<Error> {
        self.link.obstacle()
    }

    pub(super) fn close(&self) {
        self.watching.close();
        self.link.close();
    }
}
