//! Locks in Redis or Valkey: one server, Sentinel or Cluster.
//!
//! - [`config`]: what a backend is made from.
//! - [`keys`], [`json`], [`reply`]: names, stored data and answers. Pure.
//! - [`scripts`]: each operation is one Lua script, so it is atomic.
//! - [`link`] keeps one [`connection`] to the server that [`topology`] finds and the [`dialer`]
//!   calls; [`driver`] moves its bytes and [`watchdog`] limits its waits, both without waking a
//!   thread for each request.
//! - [`lane`] is a second one, for requests made on the thread of an event loop: [`resp`] over a
//!   [`wire`].

pub mod config;
mod connection;
mod dialer;
mod driver;
mod error;
pub mod json;
pub mod keys;
mod lane;
mod lent;
mod link;
mod reply;
mod resp;
pub mod scripts;
#[cfg(test)]
mod tests;
mod topology;
mod watchdog;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::tls::Tls;
use super::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, LockRecord, LookupQuery,
    ReleaseOutcome, Warnings,
};
use crate::error::{Error, Result};
use crate::event_loop::EventLoop;
use crate::lock::{Key, LockId, Ttl};
use config::{Deployment, RedisConfig};
use dialer::Dialer;
use keys::Keyspace;
use link::Link;
use reply::Presence;
use scripts::Call;
use topology::{Nat, Topology};

const DEFAULT_PREFIX: &str = "syncguard";

pub struct RedisBackend {
    keyspace: Keyspace,
    link: Arc<Link>,
    cleanup_in_is_locked: bool,
    cleaning: Arc<AtomicBool>,
}

impl RedisBackend {
    /// Checks everything and connects to nothing.
    pub fn open(
        config: RedisConfig,
        warnings: Warnings,
        home: Option<Arc<dyn EventLoop>>,
    ) -> Result<Self> {
        config.check()?;
        let connect_timeout = config.connect_timeout()?;
        let prefix = config.key_prefix.as_deref().unwrap_or(DEFAULT_PREFIX);
        let keyspace = Keyspace::new(prefix, config.is_cluster(), &config.client_key_prefix)?;
        let dialer = Dialer {
            operation_timeout: config.operation_timeout()?,
            login: config.login,
            tls: config.tls.map(Tls::new).transpose()?,
            family: config.family,
            warnings,
            warned: Arc::default(),
            reached: Arc::default(),
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
        Ok(Self {
            keyspace,
            link: Arc::new(Link::new(topology, dialer, connect_timeout, home)),
            cleanup_in_is_locked: config.cleanup_in_is_locked,
            cleaning: Arc::default(),
        })
    }

    /// Nobody waits for it, and there is never more than one at a time.
    fn clean_up(&self, lock_key: String, lock_id: LockId) {
        let Ok(index) = self.keyspace.index_key(lock_id) else {
            return;
        };
        if self.cleaning.swap(true, Ordering::Relaxed) {
            return;
        }
        let link = Arc::clone(&self.link);
        let cleaning = Arc::clone(&self.cleaning);
        tokio::spawn(async move {
            // What fails now is tried by a later isLocked.
            let _ = link
                .run(&Call {
                    script: &scripts::CLEANUP,
                    keys: &[&lock_key, &index],
                    args: &[lock_id.as_str()],
                })
                .await;
            cleaning.store(false, Ordering::Relaxed);
        });
    }
}

/// What an error line of the protocol means, for those who got it through another client.
pub fn server_error(line: &str) -> Error {
    let line = line.lines().next().unwrap_or_default();
    match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()) {
        Ok(redis::Value::ServerError(error)) => error::from_server(&error),
        _ => error::unexpected_reply(),
    }
}

#[async_trait]
impl Backend for RedisBackend {
    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let keys = self.keyspace.lock_keys(&request.key)?;
        let index = self.keyspace.index_key(request.lock_id)?;
        let call = Call {
            script: &scripts::ACQUIRE,
            keys: &[&keys.lock, &index, &keys.fence],
            args: &[
                request.lock_id.as_str(),
                &request.ttl.ms().to_string(),
                &json::escape(request.key.as_str()),
            ],
        };
        reply::acquired(self.link.run(&call).await?)
    }

    async fn release(&self, lock_id: LockId) -> Result<ReleaseOutcome> {
        let call = Call {
            script: &scripts::RELEASE,
            keys: &[&self.keyspace.index_key(lock_id)?],
            args: &[lock_id.as_str()],
        };
        reply::released(self.link.run(&call).await?)
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        let call = Call {
            script: &scripts::EXTEND,
            keys: &[&self.keyspace.index_key(lock_id)?],
            args: &[lock_id.as_str(), &ttl.ms().to_string()],
        };
        reply::extended(self.link.run(&call).await?)
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        let lock_key = self.keyspace.lock_keys(key)?.lock;
        let call = Call {
            script: &scripts::IS_LOCKED,
            keys: &[&lock_key],
            args: &[],
        };
        match reply::presence(self.link.run(&call).await?)? {
            Presence::Locked => Ok(true),
            Presence::Free => Ok(false),
            Presence::Stale(lock_id) => {
                if self.cleanup_in_is_locked {
                    self.clean_up(lock_key, lock_id);
                }
                Ok(false)
            }
        }
    }

    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        let (key, lock_id) = match query {
            LookupQuery::Key(key) => (self.keyspace.lock_keys(key)?.lock, ""),
            LookupQuery::LockId(lock_id) => (self.keyspace.index_key(*lock_id)?, lock_id.as_str()),
        };
        let call = Call {
            script: &scripts::LOOKUP,
            keys: &[&key],
            args: &[lock_id],
        };
        reply::found(self.link.run(&call).await?)
    }

    async fn close(&self) {
        self.link.close();
    }
}
