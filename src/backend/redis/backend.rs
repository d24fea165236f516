//! The operations. Each one is a single call of a script, so it is atomic.

use std::sync::Arc;

use async_trait::async_trait;
use redis::Value;

use super::client::Client;
use super::config::{ClientConfig, RedisConfig};
use super::connections::Connections;
use super::format::keys::Names;
use super::format::layout::Layout;
use super::format::reply;
use super::format::scripts::{self, Call, Script, TOLERANCE_MS};
use super::{prefixes, report};
use crate::backend::report::Finding;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, Capabilities, ExtendOutcome, LockRecord, LookupQuery,
    Page, ReleaseOutcome, ReleaseRequest, Warnings, Watch,
};
use crate::error::{Error, Result};
use crate::foreign::Foreign;
use crate::lock::{Access, HolderLabel, Key, LockId, Ttl};
use crate::net::event_loop::EventLoop;

const DEFAULT_PREFIX: &str = "syncguard";

pub struct RedisBackend {
    pub(super) layout: Layout,
    transport: Transport,
    cleanup_in_is_locked: bool,
}

/// How scripts reach a server.
enum Transport {
    Connections(Connections),
    Client(Client),
}

impl RedisBackend {
    /// Checks the configuration. The first operation connects.
    pub fn open(
        config: RedisConfig,
        warnings: Warnings,
        event_loop: Option<Arc<dyn EventLoop>>,
    ) -> Result<Self> {
        config.check()?;
        let prefix = config.key_prefix.as_deref().unwrap_or(DEFAULT_PREFIX);
        let layout = Layout::new(prefix, config.is_cluster(), &config.client_key_prefix)?;
        Ok(Self {
            cleanup_in_is_locked: config.cleanup_in_is_locked,
            transport: Transport::Connections(Connections::open(
                config, &layout, warnings, event_loop,
            )?),
            layout,
        })
    }

    /// Makes a backend that runs its scripts through a client of the program. Closing the backend does
    /// not close the client.
    pub fn open_over_client(config: ClientConfig, client: Arc<dyn Foreign>) -> Result<Self> {
        let prefix = config.key_prefix.as_deref().unwrap_or(DEFAULT_PREFIX);
        let limit = config.operation_timeout()?;
        Ok(Self {
            layout: Layout::new(prefix, config.cluster, "")?,
            transport: Transport::Client(Client { client, limit }),
            cleanup_in_is_locked: config.cleanup_in_is_locked,
        })
    }

    /// None if a client of the program runs the scripts.
    fn connections(&self) -> Option<&Connections> {
        match &self.transport {
            Transport::Connections(connections) => Some(connections),
            Transport::Client(_) => None,
        }
    }

    /// Returns a lockId for a record that nobody holds alone.
    fn unheld_lock_id(&self, key: &Key) -> LockId {
        let lock_id = LockId::generate();
        self.capabilities()
            .lock_id_for(key, Access::Exclusive, lock_id)
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
        match &self.transport {
            Transport::Connections(connections) => connections.shards[shard].run(&call).await,
            // Boxed, so that the future of the usual case stays small.
            Transport::Client(client) => Box::pin(client.run(&call)).await,
        }
    }
}

/// Reads a position in a list: a shard, and the server's cursor in it.
fn read_position(text: &str) -> Option<(usize, &str)> {
    let (shard, cursor) = text.split_once(':')?;
    // Redis would accept a sign, and spaces.
    let is_number = cursor.bytes().all(|b| b.is_ascii_digit()) && cursor.parse::<u64>().is_ok();
    is_number.then_some((shard.parse().ok()?, cursor))
}

#[async_trait]
impl Backend for RedisBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // The requests of one thread share a connection. Nothing is known about a user's client.
            keeps_order: self.connections().is_some(),
            supports_sharing: true,
            lock_id_bits: self.layout.lock_id_bits(),
            ..Capabilities::default()
        }
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let (shard, space) = self.layout.of_key(&request.key);
        if self.layout.of_lock_id(request.lock_id).0 != shard {
            return Err(Error::internal(
                "The lockId belongs to another shard than the key",
            ));
        }
        let Names { lock, index, fence } = space.names(&request.key, request.lock_id)?;
        let (lock_id, key) = (request.lock_id.as_str(), request.key.as_str());
        let label = request.label.as_ref().map_or("", HolderLabel::as_str);
        let (mut digits, mut more_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
        let ttl_ms = digits.format(request.ttl.ms());
        let keys = [lock.as_str(), &index, &fence];
        let mut args = [lock_id, ttl_ms, TOLERANCE_MS, &lock, key, label, "", ""];
        let record;
        let (script, count) = match (request.access, &request.mark) {
            (Access::Exclusive, None) => {
                // The label is not among the documented arguments, so a client only gets it if there is
                // one.
                let has_label = self.connections().is_some() || !label.is_empty();
                (&scripts::ACQUIRE, if has_label { 6 } else { 5 })
            }
            (Access::Exclusive, Some(mark)) => {
                args[6] = mark.as_str();
                (&scripts::ACQUIRE_MARKING, 7)
            }
            (Access::Shared { limit }, _) => {
                record = self.unheld_lock_id(&request.key);
                args[6] = more_digits.format(limit);
                args[7] = record.as_str();
                (&scripts::SHARE, 8)
            }
        };
        let reply = self.run(shard, script, &keys, &args[..count]).await?;
        reply::acquired(reply)
    }

    async fn unmark(&self, key: &Key, mark: LockId) -> Result<()> {
        let (shard, space) = self.layout.of_key(key);
        let keys = [&*space.lock_key(key)?];
        let args = [mark.as_str()];
        let reply = self.run(shard, &scripts::UNMARK, &keys, &args).await?;
        reply::yes_or_no(reply).map(drop)
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseOutcome> {
        let lock_id = request.lock_id;
        let (shard, space) = self.layout.of_lock_id(lock_id);
        let index = space.index_key(lock_id)?;
        // While a cluster moves a slot, it refuses scripts that use more than one key.
        let lock = match &request.key {
            Some(key) if self.connections().is_some_and(|own| !own.is_cluster) => {
                Some(space.lock_key(key)?)
            }
            _ => None,
        };
        let keys = [index.as_str(), lock.as_deref().unwrap_or_default()];
        let keys = &keys[..if lock.is_some() { 2 } else { 1 }];
        let args = [lock_id.as_str(), TOLERANCE_MS];
        reply::released(self.run(shard, &scripts::RELEASE, keys, &args).await?)
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        let ttl_ms = ttl.ms().to_string();
        let (shard, space) = self.layout.of_lock_id(lock_id);
        let index = space.index_key(lock_id)?;
        let args = [lock_id.as_str(), TOLERANCE_MS, &ttl_ms];
        let keys = [index.as_str()];
        let reply = self.run(shard, &scripts::EXTEND, &keys, &args);
        reply::extended(reply.await?)
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        let (shard, space) = self.layout.of_key(key);
        let keys = [&*space.lock_key(key)?, &space.index_start()];
        let keys = &keys[..if self.cleanup_in_is_locked { 2 } else { 1 }];
        let reply = self.run(shard, &scripts::IS_LOCKED, keys, &[]).await?;
        reply::yes_or_no(reply)
    }

    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        let (shard, key, lock_id) = match query {
            LookupQuery::Key(key) => {
                let (shard, space) = self.layout.of_key(key);
                (shard, space.lock_key(key)?, "")
            }
            LookupQuery::LockId(lock_id) => {
                let (shard, space) = self.layout.of_lock_id(*lock_id);
                (shard, space.index_key(*lock_id)?, lock_id.as_str())
            }
        };
        let args = [lock_id, TOLERANCE_MS];
        let keys = [key.as_str()];
        let reply = self.run(shard, &scripts::LOOKUP, &keys, &args);
        reply::found(reply.await?)
    }

    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        let shards = self.layout.shards();
        let (shard, cursor) = read_position(after.unwrap_or("0:0"))
            .filter(|(shard, _)| *shard < shards.len())
            .ok_or_else(|| {
                Error::invalid_argument(
                    "The cursor is not one of a list of locks. Pass the cursor that came with the last page",
                )
            })?;
        let space = &shards[shard];
        let args = [cursor, &space.fence_start(), &limit.to_string()];
        let keys = [space.start()];
        let reply = self.run(shard, &scripts::LIST, &keys, &args).await?;
        let reply::Listed { mut page, unread } = reply::page(reply, space)?;
        for name in unread {
            let lock = [space.start(), &name].concat();
            let keys = [lock.as_str()];
            let reply = self.run(shard, &scripts::READ_SHARED, &keys, &[]).await?;
            page.locks.append(&mut reply::holders(reply, space, &name)?);
        }
        let next = match page.next {
            Some(cursor) => Some(format!("{shard}:{cursor}")),
            None if shard + 1 < shards.len() => Some(format!("{}:0", shard + 1)),
            None => None,
        };
        Ok(Page { next, ..page })
    }

    async fn force_release(&self, key: &Key) -> Result<bool> {
        let (shard, space) = self.layout.of_key(key);
        let keys = [&*space.lock_key(key)?, &space.index_start()];
        let reply = self.run(shard, &scripts::FORCE_RELEASE, &keys, &[]).await?;
        reply::yes_or_no(reply)
    }

    async fn report(&self) -> Result<Vec<Finding>> {
        let mut infos = Vec::new();
        for (shard, space) in self.layout.shards().iter().enumerate() {
            let keys = [space.start()];
            let info = self.run(shard, &scripts::INFO, &keys, &[]).await;
            match info.and_then(reply::read) {
                Ok(info) => infos.push(info),
                // Perhaps only INFO is forbidden.
                Err(error) => {
                    let other = self.run(shard, &scripts::IS_LOCKED, &keys, &[]);
                    return other.await.map(|_| report::unknown()).map_err(|_| error);
                }
            }
        }
        let mut findings = report::findings(&infos);
        findings.push(prefixes::finding(self).await);
        Ok(findings)
    }

    fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        let (shard, space) = self.layout.of_key(key);
        let lock = space.lock_key(key).ok()?;
        Some(self.connections()?.watcher.watch(shard, &lock))
    }

    fn obstacle(&self) -> Option<Error> {
        self.connections()?.obstacle()
    }

    async fn close(&self) {
        if let Some(connections) = self.connections() {
            connections.close();
        }
    }
}
