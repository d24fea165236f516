//! Finds the server that accepts writes. Each shard has exactly one at a time, and only a [`Cluster`]
//! has more than one shard.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::Value;
use tokio::time::{sleep, timeout};

use super::cluster::Cluster;
use super::dialer::Dialer;
use super::server::Server;
use crate::backend::redis::config::{Deployment, Node};
use crate::backend::redis::connection::Connection;
use crate::backend::redis::error;
use crate::backend::redis::format::reply::read;
use crate::backend::tls::Tls;
use crate::backend::unreachable::Reason;
use crate::error::{Error, ErrorCode, Result};

pub(crate) enum Topology {
    Server(Node),
    Sentinel {
        sentinels: Vec<Node>,
        name: String,
        /// Sentinels have their own credentials and TLS settings.
        dialer: Box<Dialer>,
        nat: Nat,
    },
    Cluster(Cluster),
}

/// How long to wait for the answer of one server before the next one is asked, too.
const ASK_NEXT_AFTER: Duration = Duration::from_millis(200);

/// The addresses of servers that call themselves `host:port`, where those cannot be reached.
pub(crate) struct Nat(pub(crate) HashMap<String, Node>);

impl Nat {
    pub(super) fn node(&self, host: &str, port: u16) -> Node {
        match self.0.get(&format!("{host}:{port}")) {
            Some(node) => node.clone(),
            None => Node::tcp(host, port),
        }
    }
}

impl Topology {
    /// `slots` are those of the shards, for a cluster. `dialer` has the settings for the servers that
    /// have the locks.
    pub(crate) fn open(deployment: Deployment, slots: Vec<u16>, dialer: &Dialer) -> Result<Self> {
        Ok(match deployment {
            Deployment::Server { node } => Self::Server(node),
            Deployment::Sentinel {
                sentinels,
                name,
                login,
                tls,
                nat_map,
            } => Self::Sentinel {
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
                Self::Cluster(Cluster::new(nodes, slots, Nat(nat_map)))
            }
        })
    }

    /// Whether another server may take over from the one that is connected.
    pub(crate) fn can_change(&self) -> bool {
        !matches!(self, Self::Server(_))
    }

    /// Connects to the server that has this shard.
    pub(crate) async fn connect(&self, shard: usize, dialer: &Dialer) -> Result<Arc<Server>> {
        match self {
            Self::Server(node) => Ok(Server::new(dialer.dial(node).await?, dialer)),
            Self::Sentinel {
                sentinels,
                name,
                dialer: to_sentinel,
                nat,
            } => {
                let answers = sentinels
                    .iter()
                    .map(|sentinel| master_of(to_sentinel, sentinel, name, nat));
                let master = first_answer(sentinels, answers, dialer).await?;
                let connection = dialer.dial(&master).await?;
                expect_master(&master, &connection).await?;
                Ok(Server::new(connection, dialer))
            }
            Self::Cluster(cluster) => cluster.connect(shard, dialer).await,
        }
    }
}

/// Asks one node after the other. A slow node does not delay the next one. An error about our own
/// settings counts only if no node can answer: one misconfigured node must not make all fail.
pub(super) async fn first_answer<T>(
    nodes: &[Node],
    answers: impl Iterator<Item = impl Future<Output = Result<T>>>,
    dialer: &Dialer,
) -> Result<T> {
    let limit = dialer.time_for_a_candidate();
    let mut failure: Option<Error> = None;
    let mut next = nodes.iter().zip(answers);
    let mut asked = FuturesUnordered::new();
    loop {
        let more = next.next();
        let is_last = more.is_none();
        asked.extend(more.map(|(node, answer)| async move {
            let late = || Err(error::cannot_connect(node, false, Reason::TimedOut));
            timeout(limit, answer).await.unwrap_or_else(|_| late())
        }));
        let error = tokio::select! {
            answer = asked.next() => match answer {
                Some(Ok(answer)) => return Ok(answer),
                Some(Err(error)) => error,
                None => break,
            },
            () = sleep(ASK_NEXT_AFTER), if !is_last => continue,
        };
        if error.code != ErrorCode::ServiceUnavailable || failure.is_none() {
            failure = Some(error);
        }
    }
    let failure = failure.unwrap_or_else(|| Error::unavailable("No Redis server is known"));
    Err(error::of_all(nodes, failure))
}

async fn master_of(dialer: &Dialer, sentinel: &Node, name: &str, nat: &Nat) -> Result<Node> {
    let sentinel = dialer.dial(sentinel).await?;
    let command = [
        b"SENTINEL".as_slice(),
        b"GET-MASTER-ADDR-BY-NAME",
        name.as_bytes(),
    ];
    match sentinel.ask(&command).await? {
        Value::ServerError(error) => Err(error::from_server(&error)),
        Value::Nil => Err(Error::invalid_argument(
            "The sentinels do not know a master group of this name",
        )),
        value => {
            let (host, port): (String, u16) = read(value)?;
            Ok(nat.node(&host, port))
        }
    }
}

/// Checks that this server is a master. Right after a failover, sentinels may still name the old one.
async fn expect_master(master: &Node, connection: &Connection) -> Result<()> {
    match connection.ask(&[b"ROLE"]).await? {
        // The user may not run ROLE. If the server is a replica, it refuses the first write.
        Value::ServerError(_) => Ok(()),
        Value::Array(role) => match role.into_iter().next() {
            Some(name) if read::<String>(name.clone())? == "master" => Ok(()),
            _ => Err(Error::unavailable(format!(
                "The Redis server at {master}, which the sentinels name, is a replica"
            ))),
        },
        _ => Err(error::unexpected_reply()),
    }
}
