//! How scripts reach a server: over connections of our own, or through the `eval` of a client that the
//! program has.

use std::sync::Arc;

use redis::Value;

use super::config::{Deployment, RedisConfig};
use super::connections::Connections;
use super::eval::Eval;
use super::format::layout::Layout;
use super::format::scripts::{Call, Form};
use super::servers::cluster::Cluster;
use super::servers::dialer::Dialer;
use super::servers::topology::{Nat, Topology};
use super::watch::Watching;
use crate::backend::tls::Tls;
use crate::backend::{Warnings, Watch};
use crate::error::{Error, Result};
use crate::net::event_loop::EventLoop;

pub(super) enum Transport {
    Native {
        is_cluster: bool,
        /// One for each shard of the layout.
        shards: Vec<Connections>,
        watching: Watching,
    },
    Client(Eval),
}

impl Transport {
    /// Connects to nothing.
    pub(super) fn open(
        config: RedisConfig,
        layout: &Layout,
        warnings: Warnings,
        event_loop: Option<Arc<dyn EventLoop>>,
    ) -> Result<Self> {
        let connect_timeout = config.connect_timeout()?;
        let is_cluster = config.is_cluster();
        let dialer = Dialer {
            operation_timeout: config.operation_timeout()?,
            login: config.login,
            tls: config.tls.map(Tls::new).transpose()?,
            family: config.family,
            tracks: false,
            // The keys of a script must be of one slot.
            shares_scripts: !is_cluster,
            pool: Arc::default(),
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
            Deployment::Cluster { nodes, nat_map } => {
                Topology::Cluster(Cluster::new(nodes, layout.slots(), Nat(nat_map)))
            }
        };
        let topology = Arc::new(topology);
        let shards = 0..layout.shards().len();
        let connections = |shard| {
            let (topology, event_loop) = (Arc::clone(&topology), event_loop.clone());
            Connections::new(topology, shard, &dialer, connect_timeout, event_loop)
        };
        Ok(Self::Native {
            is_cluster,
            shards: shards.clone().map(connections).collect(),
            watching: Watching::new(&topology, shards, &dialer, connect_timeout),
        })
    }

    /// The form of the scripts that are run.
    pub(super) fn form(&self) -> Form {
        match self {
            Self::Native { .. } => Form::Lean,
            Self::Client(_) => Form::Documented,
        }
    }

    /// Whether our own connection leads to a server that has all keys, so that a script may use any of
    /// them together.
    pub(super) fn is_single_server(&self) -> bool {
        matches!(
            self,
            Self::Native {
                is_cluster: false,
                ..
            }
        )
    }

    /// Runs a script about locks of this shard, and returns what it answered.
    pub(super) async fn run(&self, shard: usize, call: &Call<'_>) -> Result<Value> {
        match self {
            Self::Native { shards, .. } => shards[shard].run(call).await,
            // In a box: the future of the usual case stays small.
            Self::Client(eval) => Box::pin(eval.run(call)).await,
        }
    }

    /// None for a client's `eval`, which cannot tell of changes.
    pub(super) fn watch(&self, shard: usize, lock_key: &str) -> Option<Box<dyn Watch>> {
        match self {
            Self::Native { watching, .. } => Some(watching.watch(shard, lock_key)),
            Self::Client(_) => None,
        }
    }

    /// What went wrong last while calls wait for a connection.
    pub(super) fn obstacle(&self) -> Option<Error> {
        match self {
            Self::Native { shards, .. } => shards.iter().find_map(Connections::obstacle),
            Self::Client(_) => None,
        }
    }

    pub(super) fn close(&self) {
        if let Self::Native {
            shards, watching, ..
        } = self
        {
            watching.close();
            shards.iter().for_each(Connections::close);
        }
    }
}
