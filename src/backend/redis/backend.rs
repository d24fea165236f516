//! The operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::config::{ClientConfig, RedisConfig};
use super::eval::Eval;
use super::format::json;
use super::format::layout::Layout;
use super::format::reply::{self, Presence};
use super::format::scripts::{self, Args, Call, TOLERANCE_MS};
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
    /// Checks everything and connects to nothing.
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

    /// Over a client that the program has. It is not closed with the backend.
    pub fn open_over_client(config: ClientConfig, client: Arc<dyn Foreign>) -> Result<Self> {
        let prefix = config.key_prefix.as_deref().unwrap_or(DEFAULT_PREFIX);
        let layout = Layout::new(prefix, config.cluster, "")?;
        let transport = Transport::Client(Eval::new(client, config.operation_timeout()?));
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

    async fn release_with(&self, lock_id: LockId, keys: &[&str]) -> Result<ReleaseOutcome> {
        let call = Call {
            script: &scripts::RELEASE,
            keys,
            args: Args {
                lean: &[lock_id.as_str()],
                documented: &[lock_id.as_str(), TOLERANCE_MS],
            },
        };
        let (shard, _) = self.layout.of_lock_id(lock_id);
        reply::released(self.transport.run(shard, &call).await?)
    }

    /// Nobody waits for it, and there is never more than one at a time.
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
            // What fails now is tried by a later isLocked.
            let _ = transport
                .run(
                    shard,
                    &Call {
                        script: &scripts::CLEANUP,
                        keys: &[names.lock(), names.index()],
                        args: Args::same(&[lock_id.as_str()]),
                    },
                )
                .await;
            cleaning.store(false, Ordering::Relaxed);
        });
    }
}

/// Reads a shard and a cursor in it, as [`written`] writes them.
fn read_position(text: &str) -> Option<(usize, &str)> {
    let (shard, cursor) = text.split_once(':').unwrap_or(("0", text));
    // Redis would take a sign, and spaces.
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let valid = is_number(shard) && is_number(cursor) && cursor.parse::<u64>().is_ok();
    valid
        .then(|| shard.parse().ok())?
        .map(|shard| (shard, cursor))
}

fn written(shard: usize, cursor: &str) -> String {
    match shard {
        0 => cursor.to_owned(),
        shard => format!("{shard}:{cursor}"),
    }
}

#[async_trait]
impl Backend for RedisBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // The requests of one thread share a connection. Nothing is known of a user's client.
            keeps_order: matches!(*self.transport, Transport::Native { .. }),
            lock_id_bits: self.layout.lock_id_bits(),
            ..Capabilities::default()
        }
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let (shard, space) = self.layout.of_key(&request.key);
        if self.layout.of_lock_id(request.lock_id).0 != shard {
            return Err(Error::internal("A lockId that leads to another shard"));
        }
        let names = space.names(&request.key, request.lock_id)?;
        let (lock_id, key) = (request.lock_id.as_str(), request.key.as_str());
        let label = request.label.as_ref();
        let mut digits = itoa::Buffer::new();
        let ttl_ms = digits.format(request.ttl.ms());
        let documented = [
            lock_id,
            ttl_ms,
            TOLERANCE_MS,
            names.lock(),
            key,
            label.map_or("", HolderLabel::as_str),
        ];
        let call = Call {
            script: &scripts::ACQUIRE,
            keys: &[names.lock(), names.index(), names.fence()],
            args: Args {
                lean: &[lock_id, ttl_ms, &json::key_and_label(key, label)],
                // The label is no documented argument: it is only sent where there is one.
                documented: &documented[..if label.is_some() { 6 } else { 5 }],
            },
        };
        reply::acquired(
            self.transport.form(),
            self.transport.run(shard, &call).await?,
        )
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseOutcome> {
        let lock_id = request.lock_id;
        match &request.key {
            Some(key) if self.transport.is_single_server() => {
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
        let call = Call {
            script: &scripts::EXTEND,
            keys: &[&space.index_key(lock_id)?],
            args: Args {
                lean: &[lock_id.as_str(), &ttl_ms],
                documented: &[lock_id.as_str(), TOLERANCE_MS, &ttl_ms],
            },
        };
        reply::extended(self.transport.run(shard, &call).await?)
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        let (shard, space) = self.layout.of_key(key);
        let call = Call {
            script: &scripts::IS_LOCKED,
            keys: &[&space.lock_key(key)?],
            args: Args::same(&[]),
        };
        match reply::presence(self.transport.run(shard, &call).await?)? {
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
        let call = Call {
            script: &scripts::LOOKUP,
            keys: &[&key],
            args: Args {
                lean: &[lock_id],
                documented: &[lock_id, TOLERANCE_MS],
            },
        };
        reply::found(self.transport.run(shard, &call).await?)
    }

    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        let shards = self.layout.shards();
        let (shard, cursor) = read_position(after.unwrap_or("0"))
            .filter(|(shard, _)| *shard < shards.len())
            .ok_or_else(|| {
                Error::invalid_argument(
                    "Not a place in a list of locks: pass what the page before said",
                )
            })?;
        let (fence_start, limit) = (self.layout.fence_start(), limit.to_string());
        let tails: Vec<String> = shards.iter().map(|space| self.layout.tail(space)).collect();
        let mut args = vec![cursor, &fence_start, &limit];
        if tails.len() > 1 {
            args.push(&tails[shard]);
            args.extend(tails.iter().map(String::as_str));
        }
        let call = Call {
            script: &scripts::LIST,
            keys: &[shards[shard].start()],
            args: Args::same(&args),
        };
        let page = reply::page(self.transport.run(shard, &call).await?, &self.layout)?;
        let next = match page.next {
            None if shard + 1 < shards.len() => Some(written(shard + 1, "0")),
            next => next.map(|cursor| written(shard, &cursor)),
        };
        Ok(Page { next, ..page })
    }

    async fn force_release(&self, key: &Key) -> Result<bool> {
        let (shard, space) = self.layout.of_key(key);
        let call = Call {
            script: &scripts::FORCE_RELEASE,
            keys: &[
                &space.lock_key(key)?,
                // The holder's is found there, unless its name had to be shortened: then it stays
                // until its time is over, and leads nowhere.
                &space.index_start(),
            ],
            args: Args::same(&[]),
        };
        reply::taken_away(self.transport.run(shard, &call).await?)
    }

    async fn report(&self) -> Result<Vec<Finding>> {
        let mut infos = Vec::new();
        for (shard, space) in self.layout.shards().iter().enumerate() {
            let ask = async |script| {
                let call = Call {
                    script,
                    keys: &[space.start()],
                    args: Args::same(&[]),
                };
                self.transport.run(shard, &call).await
            };
            match ask(&scripts::INFO).await.and_then(reply::text) {
                Ok(info) => infos.push(info),
                // Perhaps it is only this that is not permitted.
                Err(error) => {
                    let other = ask(&scripts::IS_LOCKED).await;
                    return other.map(|_| report::unknown()).map_err(|_| error);
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
