//! Finding the server that takes the writes.
//!
//! All keys of a backend are in one place, also in a cluster (they share a hash tag), so there is
//! always exactly one such server at a time, and one connection to it is enough.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::{FromRedisValue, Value};
use tokio::time::timeout;

use super::connection::Connection;
use super::dialer::Dialer;
use crate::backend::redis::config::Node;
use crate::backend::redis::error;
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
    Cluster {
        nodes: Vec<Node>,
        /// Any key of the backend: tells the slot.
        key: String,
        nat: Nat,
        known: Mutex<Known>,
    },
}

/// Where servers are reached that call themselves `host:port`.
pub(crate) struct Nat(pub(crate) HashMap<String, Node>);

/// What a cluster told us last.
#[derive(Default)]
pub(crate) struct Known {
    /// Where a server said that our slot is now.
    moved_to: Option<Node>,
    masters: Vec<Node>,
}

impl Nat {
    fn node(&self, host: &str, port: u16) -> Node {
        match self.0.get(&format!("{host}:{port}")) {
            Some(node) => node.clone(),
            None => Node::tcp(host, port),
        }
    }
}

impl Topology {
    /// Whether another server may take over from the one that is connected.
    pub(crate) fn can_change(&self) -> bool {
        !matches!(self, Self::Server(_))
    }

    /// `limit` bounds each server that is asked for the way.
    pub(crate) async fn connect(&self, dialer: &Dialer, limit: Duration) -> Result<Connection> {
        match self {
            Self::Server(node) => dialer.dial(node).await,
            Self::Sentinel {
                sentinels,
                name,
                dialer: to_sentinel,
                nat,
            } => {
                let answers = sentinels
                    .iter()
                    .map(|sentinel| master_of(to_sentinel, sentinel, name, nat));
                let master = first_answer(sentinels, answers, limit).await?;
                let connection = dialer.dial(&master).await?;
                expect_master(&master, &connection).await?;
                Ok(connection)
            }
            Self::Cluster {
                nodes,
                key,
                nat,
                known,
            } => {
                let (moved_to, mut candidates) = {
                    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                    (known.moved_to.take(), known.masters.clone())
                };
                if let Some(node) = moved_to
                    && let Ok(Ok(connection)) = timeout(limit, dialer.dial(&node)).await
                {
                    return Ok(connection);
                }
                candidates.extend(nodes.iter().cloned());
                let answers = candidates
                    .iter()
                    .map(|node| owner_of_slot(dialer, node, key, nat));
                let (owner, masters) = first_answer(&candidates, answers, limit).await?;
                known.lock().unwrap_or_else(PoisonError::into_inner).masters = masters;
                dialer.dial(&owner).await
            }
        }
    }

    /// A server of the cluster said that our slot is at `address` now.
    pub(crate) fn moved(&self, address: &str) {
        if let Self::Cluster { nat, known, .. } = self
            && let Some(node) = parse_address(address, nat)
        {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.moved_to = Some(node);
        }
    }

    /// A connection to a server that our slot is on its way to.
    pub(crate) async fn connect_to(&self, dialer: &Dialer, address: &str) -> Result<Connection> {
        match self {
            Self::Cluster { nat, .. } => match parse_address(address, nat) {
                Some(node) => dialer.dial(&node).await,
                None => Err(error::unexpected_reply()),
            },
            _ => Err(error::unexpected_reply()),
        }
    }
}

/// `host:port`; the host may be an IPv6 address. An empty host would be the one that answered,
/// which is found by asking again.
fn parse_address(address: &str, nat: &Nat) -> Option<Node> {
    let (host, port) = address.rsplit_once(':')?;
    let port = port.parse().ok()?;
    (!host.is_empty()).then(|| nat.node(host, port))
}

/// Asks one node after the other. An error that speaks of our own settings counts only when
/// nobody can answer: one misconfigured node must not stop us.
async fn first_answer<T>(
    nodes: &[Node],
    answers: impl Iterator<Item = impl Future<Output = Result<T>>>,
    limit: Duration,
) -> Result<T> {
    let mut failure: Option<Error> = None;
    for (node, answer) in nodes.iter().zip(answers) {
        let error = match timeout(limit, answer).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(_) => error::unreachable(node, "timed out"),
        };
        if error.code != ErrorCode::ServiceUnavailable || failure.is_none() {
            failure = Some(error);
        }
    }
    let failure = failure.unwrap_or_else(|| Error::unavailable("No Redis server is known"));
    Err(error::tried(nodes, failure))
}

async fn master_of(dialer: &Dialer, sentinel: &Node, name: &str, nat: &Nat) -> Result<Node> {
    let sentinel = dialer.dial(sentinel).await?;
    let mut command = redis::cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
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

/// Right after a failover, sentinels may still name the old master.
async fn expect_master(master: &Node, connection: &Connection) -> Result<()> {
    match connection.ask(&redis::cmd("ROLE")).await? {
        // Not allowed to ask: then a refused write will tell.
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

/// The master that has the slot of `key`, and all masters.
async fn owner_of_slot(
    dialer: &Dialer,
    asked: &Node,
    key: &str,
    nat: &Nat,
) -> Result<(Node, Vec<Node>)> {
    let connection = dialer.dial(asked).await?;
    let mut command = redis::cmd("CLUSTER");
    command.arg("KEYSLOT").arg(key);
    let slot: u16 = match connection.ask(&command).await? {
        Value::ServerError(error) => return Err(error::not_a_cluster(&error)),
        value => read(value)?,
    };
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    let ranges: Vec<Vec<Value>> = match connection.ask(&command).await? {
        Value::ServerError(error) => return Err(error::from_server(&error)),
        value => read(value)?,
    };
    let mut owner = None;
    let mut masters = Vec::new();
    for range in ranges {
        let mut fields = range.into_iter();
        let (Some(first), Some(last), Some(master)) = (fields.next(), fields.next(), fields.next())
        else {
            return Err(error::unexpected_reply());
        };
        let Value::Array(master) = master else {
            return Err(error::unexpected_reply());
        };
        let mut master = master.into_iter();
        let host: Option<String> = read(master.next().unwrap_or(Value::Nil))?;
        let port: u16 = read(master.next().unwrap_or(Value::Nil))?;
        // A node that does not know its own address means: the one you reached me at.
        let node = match (host.as_deref(), asked) {
            (None | Some("" | "?"), Node::Tcp { host, .. }) => Node::tcp(host, port),
            (None | Some("" | "?"), Node::Unix { .. }) => return Err(error::unexpected_reply()),
            (Some(host), _) => nat.node(host, port),
        };
        if (read::<u16>(first)?..=read::<u16>(last)?).contains(&slot) {
            owner = Some(node.clone());
        }
        if !masters.contains(&node) {
            masters.push(node);
        }
    }
    match owner {
        Some(owner) => Ok((owner, masters)),
        None => Err(Error::unavailable(
            "No server of the Redis Cluster has our slot",
        )),
    }
}

fn read<T: FromRedisValue>(value: Value) -> Result<T> {
    T::from_redis_value(value).map_err(|_| error::unexpected_reply())
}
