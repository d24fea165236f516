//! Finds the master that has a slot.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::seq::SliceRandom;
use redis::Value;
use tokio::time::{Instant, timeout};

use super::dialer::Dialer;
use super::server::Server;
use super::topology::{Nat, first_answer};
use crate::backend::redis::config::Node;
use crate::backend::redis::error;
use crate::backend::redis::format::reply::read;
use crate::error::{Error, Result};

/// How long a known owner is used without asking again.
const OWNER_TTL: Duration = Duration::from_secs(1);

pub(crate) struct Cluster {
    /// The configured nodes. The others are found through them.
    seeds: Vec<Node>,
    /// The slot of each shard.
    slots: Vec<u16>,
    nat: Nat,
    known: Mutex<Known>,
    /// Held by the shard that asks. Its answer serves the shards that wait.
    asking: tokio::sync::Mutex<()>,
}

/// What the cluster answered last.
struct Known {
    masters: Vec<Node>,
    /// The owner of each shard, and since when it is known. Removed when it is used.
    owners: Vec<Option<(Node, Instant)>>,
}

impl Cluster {
    pub(crate) fn new(seeds: Vec<Node>, slots: Vec<u16>, nat: Nat) -> Self {
        let known = Known {
            masters: Vec::new(),
            owners: vec![None; slots.len()],
        };
        Self {
            seeds,
            slots,
            nat,
            known: Mutex::new(known),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// Connects to the master that has this shard. The shards of one master share the connection.
    pub(super) async fn connect(&self, shard: usize, dialer: &Dialer) -> Result<Arc<Server>> {
        if let Some(node) = self.take_known_owner(shard)
            && let Ok(Ok(server)) =
                timeout(dialer.time_for_a_candidate(), dialer.reach(&node)).await
        {
            return Ok(server);
        }
        let owner = self.owner(shard, dialer).await?;
        dialer.reach(&owner).await
    }

    /// Notes that this shard is at `address` now, as a server said.
    pub(crate) fn moved(&self, shard: usize, address: &str) {
        if let Some(node) = self.node(address)
            && let Some(owner) = self.known.lock().owners.get_mut(shard)
        {
            *owner = Some((node, Instant::now()));
        }
    }

    /// Reads `host:port`, in which the host may be an IPv6 address. None for an empty host, which means
    /// the server that answered: asking again finds it.
    pub(super) fn node(&self, address: &str) -> Option<Node> {
        let (host, port) = address.rsplit_once(':')?;
        let port = port.parse().ok()?;
        (!host.is_empty()).then(|| self.nat.node(host, port))
    }

    /// Takes the known owner of a shard, so that the next caller asks if this one was wrong.
    fn take_known_owner(&self, shard: usize) -> Option<Node> {
        let (node, since) = self.known.lock().owners.get_mut(shard)?.take()?;
        (since.elapsed() < OWNER_TTL).then_some(node)
    }

    async fn owner(&self, shard: usize, dialer: &Dialer) -> Result<Node> {
        let _asking = self.asking.lock().await;
        // Another shard may have asked meanwhile.
        if let Some(node) = self.take_known_owner(shard) {
            return Ok(node);
        }
        let candidates = self.candidates();
        let answers = candidates.iter().map(|node| self.ask(dialer, node));
        let ranges = first_answer(&candidates, answers, dialer).await?;
        let owner_of = |slot: &u16| {
            let range = ranges.iter().find(|range| range.slots.contains(slot))?;
            Some((range.master.clone(), Instant::now()))
        };
        let mut known = self.known.lock();
        known.owners = self.slots.iter().map(owner_of).collect();
        known.masters.clear();
        for range in ranges {
            if !known.masters.contains(&range.master) {
                known.masters.push(range.master);
            }
        }
        let owner = known.owners.get_mut(shard).and_then(Option::take);
        let no_owner =
            || Error::unavailable("No server of the Redis Cluster has the slot of this lock");
        owner.map(|(node, _)| node).ok_or_else(no_owner)
    }

    /// Returns the nodes to ask. The last masters come first, because they are probably connected, but
    /// in a random order, because one that is cut off from the others may be wrong.
    fn candidates(&self) -> Vec<Node> {
        let mut candidates = self.known.lock().masters.clone();
        candidates.shuffle(&mut rand::rng());
        for seed in &self.seeds {
            if !candidates.contains(seed) {
                candidates.push(seed.clone());
            }
        }
        candidates
    }

    async fn ask(&self, dialer: &Dialer, asked: &Node) -> Result<Vec<Range>> {
        let server = dialer.reach(asked).await?;
        match server.background.ask(&[b"CLUSTER", b"SLOTS"]).await? {
            Value::ServerError(error) => Err(error::not_a_cluster(&error)),
            map => self.ranges(asked, map),
        }
    }

    pub(crate) fn ranges(&self, asked: &Node, map: Value) -> Result<Vec<Range>> {
        let ranges: Vec<Vec<Value>> = read(map)?;
        let ranges = ranges.iter().map(|range| self.range(asked, range));
        ranges.collect()
    }

    fn range(&self, asked: &Node, range: &[Value]) -> Result<Range> {
        let [first, last, Value::Array(master), ..] = range else {
            return Err(error::unexpected_reply());
        };
        let [host, port, ..] = &**master else {
            return Err(error::unexpected_reply());
        };
        let (host, port): (Option<String>, u16) = (read(host.clone())?, read(port.clone())?);
        // A node that does not know its own address means the one at which it was reached.
        let master = match (host.as_deref(), asked) {
            (None | Some("" | "?"), Node::Tcp { host, .. }) => Node::tcp(host, port),
            (None | Some("" | "?"), Node::Unix { .. }) => return Err(error::unexpected_reply()),
            (Some(host), _) => self.nat.node(host, port),
        };
        Ok(Range {
            slots: read(first.clone())?..=read(last.clone())?,
            master,
        })
    }
}

pub(crate) struct Range {
    slots: std::ops::RangeInclusive<u16>,
    master: Node,
}
