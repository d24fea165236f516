//! The operations. Each one is a single call of a script, so it is atomic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::config::{ClientConfig, RedisConfig};
use super::format::layout::Layout;
use super::format::reply::{self, Presence};
use super::format::scripts::{self, TOLERANCE_MS};
use super::transport::Transport;
use super::{prefixes, report};
use crate::backend::report::Finding;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, Capabilities, ExtendOutcome, LockRecord, LookupQuery,
    Page, ReleaseOutcome, ReleaseRequest, Warnings, Watch,
};
use crate::error::{Error, Result};
use crate::foreign::Foreign;
use crate::lock::{HolderLabel, Key, LockId, Ttl};
use crate::net::event_loop::EventLoop;

const DEFAULT_PREFIX: &str = "syncguard";

pub struct RedisBackend {
    layout: Layout,
    transport: Arc<Transport>,
    cleanup_in_is_locked: bool,
    cleaning: Arc<AtomicBool>,
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
        let cleanup_in_is_locked = config.cleanup_in_is_locked;
        let transport = Transport::open(config, &layout, warnings, event_loop)?;
        Ok(Self::new(layout, transport, cleanup_in_is_locked))
    }

    /// Makes a backend that runs its scripts through a client of the program. Closing the backend does
    /// not close the client.
    pub fn open_over_client(config: ClientConfig, client: Arc<dyn Foreign>) -> Result<Self> {
        let prefix = config.key_prefix.as_deref().unwrap_or(DEFAULT_PREFIX);
        let layout = Layout::new(prefix, config.cluster, "")?;
        let transport = Transport::over_client(client, config.operation_timeout()?);
        Ok(Self::new(layout, transport, config.cleanup_in_is_locked))
    }

    fn new(layout: Layout, transport: Transport, cleanup_in_is_locked: bool) -> Self {
        Self {
            layout,
            transport: Arc::new(transport),
            cleanup_in_is_locked,
            cleaning: Arc::default(),
        }
    }

    /// Whether a script may use any of the keys together.
    fn is_single_server(&self) -> bool {
        matches!(&*self.transport, Transport::Native(native) if native.is_single_server)
    }

    async fn release_with(&self, lock_id: LockId, keys: &[&str]) -> Result<ReleaseOutcome> {
        let (shard, _) = self.layout.of_lock_id(lock_id);
        let args = [lock_id.as_str(), TOLERANCE_MS];
        let reply = self.transport.run(shard, &scripts::RELEASE, keys, &args);
        reply::released(reply.await?)
    }

    /// Removes a lock that expired long ago, in the background. Only one task does so at a time.
    fn clean_up(&self, key: &Key, lock_id: LockId) {
        let (shard, space) = self.layout.of_key(key);
        let Ok(names) = space.names(key, lock_id) else {
            return;
        };
        if self.cleaning.swap(true, Ordering::Relaxed) {
            return;
        }
        let transport = Arc::clone(&self.transport);
        let cleaning = Arc::clone(&self.cleaning);
        tokio::spawn(async move {
            let keys = [names.lock(), names.index()];
            let args = [lock_id.as_str(), TOLERANCE_MS];
            // If this fails, a later isLocked tries again.
            let _ = transport.run(shard, &scripts::CLEANUP, &keys, &args).await;
            cleaning.store(false, Ordering::Relaxed);
        });
    }
}

/// Reads what [`write_position`] wrote: a shard, and a cursor in it.
fn read_position(text: &str) -> Option<(usize, &str)> {
    let (shard, cursor) = text.split_once(':').unwrap_or(("0", text));
    // Redis would accept a sign, and spaces.
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let valid = is_number(shard) && is_number(cursor) && cursor.parse::<u64>().is_ok();
    valid
        .then(|| shard.parse().ok())?
        .map(|shard| (shard, cursor))
}

fn write_position(shard: usize, cursor: &str) -> String {
    match shard {
        0 => cursor.to_owned(),
        shard => format!("{shard}:{cursor}"),
    }
}

#[async_trait]
impl Backend for RedisBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // The requests of one thread share a connection. Nothing is known about a user's client.
            keeps_order: matches!(*self.transport, Transport::Native(_)),
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
        let names = space.names(&request.key, request.lock_id)?;
        let (lock_id, key) = (request.lock_id.as_str(), request.key.as_str());
        let label = request.label.as_ref();
        let mut digits = itoa::Buffer::new();
        let ttl_ms = digits.format(request.ttl.ms());
        let keys = [names.lock(), names.index(), names.fence()];
        if let Transport::Native(_) = *self.transport {
            let args = [lock_id, ttl_ms, &scripts::key_and_label(key, label)];
            let script = &scripts::ACQUIRE_LEAN;
            let reply = self.transport.run(shard, script, &keys, &args);
            return reply::acquired_lean(reply.await?);
        }
        // The label is not among the documented arguments, so it is only sent if there is one.
        let mut args = vec![lock_id, ttl_ms, TOLERANCE_MS, names.lock(), key];
        args.extend(label.map(HolderLabel::as_str));
        let reply = self.transport.run(shard, &scripts::ACQUIRE, &keys, &args);
        reply::acquired(reply.await?)
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseOutcome> {
        let lock_id = request.lock_id;
        match &request.key {
            Some(key) if self.is_single_server() => {
                let names = self.layout.of_key(key).1.names(key, lock_id)?;
                let keys = [names.index(), names.lock()];
                self.release_with(lock_id, &keys).await
            }
            _ => {
                let (_, space) = self.layout.of_lock_id(lock_id);
                let keys = [&*space.index_key(lock_id)?];
                self.release_with(lock_id, &keys).await
            }
        }
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        let ttl_ms = ttl.ms().to_string();
        let (shard, space) = self.layout.of_lock_id(lock_id);
        let index = space.index_key(lock_id)?;
        let args = [lock_id.as_str(), TOLERANCE_MS, &ttl_ms];
        let keys = [index.as_str()];
        let reply = self.transport.run(shard, &scripts::EXTEND, &keys, &args);
        reply::extended(reply.await?)
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        let (shard, space) = self.layout.of_key(key);
        let lock = space.lock_key(key)?;
        let keys = [lock.as_str()];
        let reply = self.transport.run(shard, &scripts::IS_LOCKED, &keys, &[]);
        match reply::presence(reply.await?)? {
            Presence::Locked => Ok(true),
            Presence::Free => Ok(false),
            Presence::Stale(lock_id) => {
                if self.cleanup_in_is_locked {
                    self.clean_up(key, lock_id);
                }
                Ok(false)
            }
        }
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
        let reply = self.transport.run(shard, &scripts::LOOKUP, &keys, &args);
        reply::found(reply.await?)
    }

    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        let shards = self.layout.shards();
        let (shard, cursor) = read_position(after.unwrap_or("0"))
            .filter(|(shard, _)| *shard < shards.len())
            .ok_or_else(|| {
                Error::invalid_argument(
                    "The cursor is not one of a list of locks. Pass the cursor that came with the last page",
                )
            })?;
        let (fence_start, limit) = (self.layout.fence_start(), limit.to_string());
        let tails: Vec<String> = shards.iter().map(|space| self.layout.tail(space)).collect();
        let mut args = vec![cursor, &fence_start, &limit];
        if tails.len() > 1 {
            args.push(&tails[shard]);
            args.extend(tails.iter().map(String::as_str));
        }
        let keys = [shards[shard].start()];
        let reply = self.transport.run(shard, &scripts::LIST, &keys, &args);
        let page = reply::page(reply.await?, &self.layout)?;
        let next = match page.next {
            None if shard + 1 < shards.len() => Some(write_position(shard + 1, "0")),
            next => next.map(|cursor| write_position(shard, &cursor)),
        };
        Ok(Page { next, ..page })
    }

    async fn force_release(&self, key: &Key) -> Result<bool> {
        let (shard, space) = self.layout.of_key(key);
        // The script finds the holder's index by this start, unless the name of the index had to be
        // shortened. Then the index stays until its time is over, and leads nowhere.
        let keys = [&*space.lock_key(key)?, &space.index_start()];
        let reply = self
            .transport
            .run(shard, &scripts::FORCE_RELEASE, &keys, &[]);
        reply::force_released(reply.await?)
    }

    async fn report(&self) -> Result<Vec<Finding>> {
        let mut infos = Vec::new();
        for (shard, space) in self.layout.shards().iter().enumerate() {
            let keys = [space.start()];
            let info = self.transport.run(shard, &scripts::INFO, &keys, &[]).await;
            match info.and_then(reply::text) {
                Ok(info) => infos.push(info),
                // Perhaps only INFO is forbidden.
                Err(error) => {
                    let other = self.transport.run(shard, &scripts::IS_LOCKED, &keys, &[]);
                    return other.await.map(|_| report::unknown()).map_err(|_| error);
                }
            }
        }
        let mut findings = report::findings(&infos);
        findings.push(prefixes::finding(&self.transport, &self.layout).await);
        Ok(findings)
    }

    fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        let (shard, space) = self.layout.of_key(key);
        self.transport.watch(shard, &space.lock_key(key).ok()?)
    }

    fn obstacle(&self) -> Option<Error> {
        self.transport.obstacle()
    }

    async fn close(&self) {
        self.transport.close();
    }
}
