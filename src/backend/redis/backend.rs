//! The operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::client::Client;
use super::config::{ClientConfig, RedisConfig};
use super::format::json;
use super::format::keys::Keyspace;
use super::format::reply::{self, Presence};
use super::format::scripts::{self, Args, Call, TOLERANCE_MS};
use super::report;
use super::transport::eval::Eval;
use crate::backend::report::Finding;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, LockRecord, LookupQuery, Page,
    ReleaseOutcome, Warnings, Watch,
};
use crate::error::{Error, Result};
use crate::event_loop::EventLoop;
use crate::foreign::Foreign;
use crate::lock::{Key, LockId, Ttl};

const DEFAULT_PREFIX: &str = "syncguard";

pub struct RedisBackend {
    keyspace: Keyspace,
    client: Arc<Client>,
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
        let prefix = config.key_prefix.as_deref().unwrap_or(DEFAULT_PREFIX);
        let keyspace = Keyspace::new(prefix, config.is_cluster(), &config.client_key_prefix)?;
        let cleanup_in_is_locked = config.cleanup_in_is_locked;
        let client = Client::open(config, &keyspace, warnings, home)?;
        Ok(Self::new(keyspace, client, cleanup_in_is_locked))
    }

    /// Over a client that the program has. It is not closed with the backend.
    pub fn open_over_client(config: ClientConfig, client: Arc<dyn Foreign>) -> Result<Self> {
        let prefix = config.key_prefix.as_deref().unwrap_or(DEFAULT_PREFIX);
        let keyspace = Keyspace::new(prefix, config.cluster, "")?;
        let client = Client::Foreign(Eval::new(client, config.operation_timeout()?));
        Ok(Self::new(keyspace, client, config.cleanup_in_is_locked))
    }

    fn new(keyspace: Keyspace, client: Client, cleanup_in_is_locked: bool) -> Self {
        Self {
            keyspace,
            client: Arc::new(client),
            cleanup_in_is_locked,
            cleaning: Arc::default(),
        }
    }

    /// Nobody waits for it, and there is never more than one at a time.
    fn clean_up(&self, lock_key: String, lock_id: LockId) {
        let Ok(index) = self.keyspace.index_key(lock_id) else {
            return;
        };
        if self.cleaning.swap(true, Ordering::Relaxed) {
            return;
        }
        let client = Arc::clone(&self.client);
        let cleaning = Arc::clone(&self.cleaning);
        tokio::spawn(async move {
            // What fails now is tried by a later isLocked.
            let _ = client
                .run(&Call {
                    script: &scripts::CLEANUP,
                    keys: &[&lock_key, &index],
                    args: Args::same(&[lock_id.as_str()]),
                })
                .await;
            cleaning.store(false, Ordering::Relaxed);
        });
    }
}

/// Redis would take a sign, and spaces.
fn is_cursor(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u64>().is_ok()
}

#[async_trait]
impl Backend for RedisBackend {
    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let keys = self.keyspace.lock_keys(&request.key)?;
        let index = self.keyspace.index_key(request.lock_id)?;
        let (lock_id, key) = (request.lock_id.as_str(), request.key.as_str());
        let ttl_ms = request.ttl.ms().to_string();
        let call = Call {
            script: &scripts::ACQUIRE,
            keys: &[&keys.lock, &index, &keys.fence],
            args: Args {
                lean: &[lock_id, &ttl_ms, &json::escape(key)],
                documented: &[lock_id, &ttl_ms, TOLERANCE_MS, &keys.lock, key],
            },
        };
        reply::acquired(self.client.form(), self.client.run(&call).await?)
    }

    async fn release(&self, lock_id: LockId) -> Result<ReleaseOutcome> {
        let call = Call {
            script: &scripts::RELEASE,
            keys: &[&self.keyspace.index_key(lock_id)?],
            args: Args {
                lean: &[lock_id.as_str()],
                documented: &[lock_id.as_str(), TOLERANCE_MS],
            },
        };
        reply::released(self.client.run(&call).await?)
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        let ttl_ms = ttl.ms().to_string();
        let call = Call {
            script: &scripts::EXTEND,
            keys: &[&self.keyspace.index_key(lock_id)?],
            args: Args {
                lean: &[lock_id.as_str(), &ttl_ms],
                documented: &[lock_id.as_str(), TOLERANCE_MS, &ttl_ms],
            },
        };
        reply::extended(self.client.run(&call).await?)
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        let lock_key = self.keyspace.lock_keys(key)?.lock;
        let call = Call {
            script: &scripts::IS_LOCKED,
            keys: &[&lock_key],
            args: Args::same(&[]),
        };
        match reply::presence(self.client.run(&call).await?)? {
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
            args: Args {
                lean: &[lock_id],
                documented: &[lock_id, TOLERANCE_MS],
            },
        };
        reply::found(self.client.run(&call).await?)
    }

    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        let cursor = after.unwrap_or("0");
        if !is_cursor(cursor) {
            return Err(Error::invalid_argument(
                "Not a place in a list of locks: pass what the page before said",
            ));
        }
        let args = [cursor, &self.keyspace.fence_start(), &limit.to_string()];
        let call = Call {
            script: &scripts::LIST,
            keys: &[self.keyspace.start()],
            args: Args::same(&args),
        };
        reply::page(self.client.run(&call).await?, &self.keyspace)
    }

    async fn force_release(&self, key: &Key) -> Result<bool> {
        let call = Call {
            script: &scripts::FORCE_RELEASE,
            keys: &[
                &self.keyspace.lock_keys(key)?.lock,
                // The holder's is found there, unless its name had to be shortened: then it stays
                // until its time is over, and leads nowhere.
                &self.keyspace.index_start(),
            ],
            args: Args::same(&[]),
        };
        reply::taken_away(self.client.run(&call).await?)
    }

    async fn report(&self) -> Result<Vec<Finding>> {
        let call = Call {
            script: &scripts::INFO,
            keys: &[self.keyspace.start()],
            args: Args::same(&[]),
        };
        match self.client.run(&call).await.and_then(reply::text) {
            Ok(info) => Ok(report::findings(&info)),
            // Perhaps it is only this that is not permitted.
            Err(error) => match self.is_locked(&Key::new("report")?).await {
                Ok(_) => Ok(report::unknown()),
                Err(_) => Err(error),
            },
        }
    }

    fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        let lock_key = self.keyspace.lock_keys(key).ok()?.lock;
        self.client.watch(&lock_key)
    }

    fn obstacle(&self) -> Option<Error> {
        self.client.obstacle()
    }

    async fn close(&self) {
        self.client.close();
    }
}
