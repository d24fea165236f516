//! Runs calls, over a connection of our own or over a client that the program has.

use std::sync::Arc;

use redis::Value;

use super::config::{Deployment, RedisConfig};
use super::format::layout::Layout;
use super::format::scripts::{Call, Form};
use super::transport::cluster::Cluster;
use super::transport::dialer::Dialer;
use super::transport::eval::Eval;
use super::transport::link::Link;
use super::transport::topology::{Nat, Topology};
use super::watch::Watching;
use crate::backend::tls::Tls;
use crate::backend::{Warnings, Watch};
use crate::error::{Error, Result};
use crate::event_loop::EventLoop;

pub(super) enum Client {
    Native {
        /// Not one of a cluster.
        lone: bool,
        /// By the places of the layout.
        links: Vec<Link>,
        watching: Watching,
    },
    Foreign(Eval),
}

impl Client {
    /// Connects to nothing.
    pub(super) fn open(
        config: RedisConfig,
        layout: &Layout,
        warnings: Warnings,
        home: Option<Arc<dyn EventLoop>>,
    ) -> Result<Self> {
        let connect_timeout = config.connect_timeout()?;
        let dialer = Dialer {
            operation_timeout: config.operation_timeout()?,
            login: config.login,
            tls: config.tls.map(Tls::new).transpose()?,
            family: config.family,
            tracks: false,
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
        let places = 0..layout.places().len();
        let link = |place| {
            let (topology, home) = (Arc::clone(&topology), home.clone());
            Link::new(topology, place, &dialer, connect_timeout, home)
        };
        Ok(Self::Native {
            lone: !topology.is_cluster(),
            links: places.clone().map(link).collect(),
            watching: Watching::new(&topology, places, &dialer, connect_timeout),
        })
    }

    /// The form of the scripts that are run.
    pub(super) fn form(&self) -> Form {
        match self {
            Self::Native { .. } => Form::Lean,
            Self::Foreign(_) => Form::Documented,
        }
    }

    /// Whether our own connection leads to a server that has all keys, and takes any of them together.
    pub(super) fn is_lone_server(&self) -> bool {
        matches!(self, Self::Native { lone: true, .. })
    }

    /// What the script answered, which is about a lock in this place.
    pub(super) async fn run(&self, place: usize, call: &Call<'_>) -> Result<Value> {
        match self {
            Self::Native { links, .. } => links[place].run(call).await,
            // In a box: the future of the usual case stays small.
            Self::Foreign(eval) => Box::pin(eval.run(call)).await,
        }
    }

    /// Nothing over a client, which cannot tell.
    pub(super) fn watch(&self, place: usize, lock_key: &str) -> Option<Box<dyn Watch>> {
        match self {
            Self::Native { watching, .. } => Some(watching.watch(place, lock_key)),
            Self::Foreign(_) => None,
        }
    }

    /// What went wrong last while calls wait for a connection.
    pub(super) fn obstacle(&self) -> Option<Error> {
        match self {
            Self::Native { links, .. } => links.iter().find_map(Link::obstacle),
            Self::Foreign(_) => None,
        }
    }

    pub(super) fn close(&self) {
        if let Self::Native {
            links, watching, ..
        } = self
        {
            watching.close();
            links.iter().for_each(Link::close);
        }
    }
}
