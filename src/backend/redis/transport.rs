//! How scripts reach a server: over connections of our own, or through the `eval` method of a client
//! that belongs to the program.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::time::timeout;

use super::config::RedisConfig;
use super::connections::Connections;
use super::error;
use super::format::layout::Layout;
use super::format::scripts::{Call, Script};
use super::servers::dialer::Dialer;
use super::servers::topology::Topology;
use super::watch::Watcher;
use crate::backend::tls::Tls;
use crate::backend::{Warnings, Watch};
use crate::error::{Error, Result};
use crate::foreign::Foreign;
use crate::net::event_loop::EventLoop;

pub(super) enum Transport {
    Native(Native),
    Client(Client),
}

pub(super) struct Native {
    /// Whether one server has all keys, so that a script may use any of them together.
    pub(super) is_single_server: bool,
    /// One for each shard of the layout.
    shards: Vec<Arc<Connections>>,
    watcher: Watcher,
}

/// A client of which nothing is known but that it runs scripts.
pub(super) struct Client {
    client: Arc<dyn Foreign>,
    limit: Duration,
}

impl Transport {
    /// Prepares the connections. They are opened on first use.
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
        let topology = Topology::open(config.deployment, layout.slots(), &dialer)?;
        let topology = Arc::new(topology);
        let shards = 0..layout.shards().len();
        let connections = |shard| {
            let (topology, event_loop) = (Arc::clone(&topology), event_loop.clone());
            Connections::new(topology, shard, &dialer, connect_timeout, event_loop)
        };
        Ok(Self::Native(Native {
            is_single_server: !is_cluster,
            shards: shards.clone().map(connections).collect(),
            watcher: Watcher::new(&topology, shards, &dialer, connect_timeout),
        }))
    }

    pub(super) fn over_client(client: Arc<dyn Foreign>, limit: Duration) -> Self {
        Self::Client(Client { client, limit })
    }

    /// Runs a script on the server that has this shard, and returns its answer.
    pub(super) async fn run(
        &self,
        shard: usize,
        script: &'static Script,
        keys: &[&str],
        args: &[&str],
    ) -> Result<Value> {
        let call = Call { script, keys, args };
        match self {
            Self::Native(native) => native.shards[shard].run(&call).await,
            // Boxed, so that the future of the usual case stays small.
            Self::Client(client) => Box::pin(client.run(&call)).await,
        }
    }

    /// None for a client, which cannot report changes.
    pub(super) fn watch(&self, shard: usize, lock_key: &str) -> Option<Box<dyn Watch>> {
        match self {
            Self::Native(native) => Some(native.watcher.watch(shard, lock_key)),
            Self::Client(_) => None,
        }
    }

    /// Returns what went wrong last, while calls wait for a connection.
    pub(super) fn obstacle(&self) -> Option<Error> {
        match self {
            Self::Native(native) => native.shards.iter().find_map(|shard| shard.obstacle()),
            Self::Client(_) => None,
        }
    }

    /// Closes our own connections. A client stays open, because it belongs to the program.
    pub(super) fn close(&self) {
        if let Self::Native(native) = self {
            native.watcher.close();
            native.shards.iter().for_each(|shard| shard.close());
        }
    }
}

/// The reply of the client's `eval`, or the error that the server answered. A nil reply may be left
/// out.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Answer {
    #[serde(default)]
    reply: Json,
    server_error: Option<String>,
}

impl Client {
    /// Runs a script once. Only an error of the server proves that nothing was done.
    async fn run(&self, call: &Call<'_>) -> Result<Value> {
        let asked = self.client.ask(json!({
            "op": "script",
            "name": call.script.name,
            "code": call.script.text,
            "sha": call.script.hash,
            "keys": call.keys,
            "args": call.args,
        }));
        let answer = match timeout(self.limit, asked).await {
            Ok(answer) => answer.map_err(Error::outcome_unknown)?,
            Err(_) => return Err(error::silent_client().outcome_unknown()),
        };
        let reply = match serde_json::from_value(answer) {
            Ok(Answer {
                server_error: Some(line),
                ..
            }) => return Err(error::server_error(&line)),
            Ok(Answer { reply, .. }) => value(reply),
            Err(_) => None,
        };
        reply.ok_or_else(|| error::unexpected_reply().outcome_unknown())
    }
}

/// Converts a reply. None if no client of Redis returns such a value.
fn value(json: Json) -> Option<Value> {
    Some(match json {
        Json::Null => Value::Nil,
        Json::Number(number) => Value::Int(number.as_i64()?),
        Json::String(text) => Value::BulkString(text.into_bytes()),
        Json::Array(values) => Value::Array(values.into_iter().map(value).collect::<Option<_>>()?),
        Json::Bool(_) | Json::Object(_) => return None,
    })
}
