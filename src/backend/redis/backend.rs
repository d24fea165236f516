//! The operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use super::client::Client;
use super::config::{ClientConfig, RedisConfig};
use super::format::json;
use super::format::layout::Layout;
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
    layout: Layout,
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
        let layout = Layout::new(prefix, config.is_cluster(), &config.client_key_prefix)?;
        let cleanup_in_is_locked = config.cleanup_in_is_locked;
        let client = Client::open(config, &layout, warnings, home)?;
        Ok(Self::new(layout, client, cleanup_in_is_locked))
    }

    /// Over a client that the program has. It is not closed with the backend.
    pub fn open_over_client(config: ClientConfig, client: Arc<dyn Foreign>) -> Result<Self> {
        let prefix = config.key_prefix.as_deref().unwrap_or(DEFAULT_PREFIX);
        let layout = Layout::new(prefix, config.cluster, "")?;
        let client = Client::Foreign(Eval::new(client, config.operation_timeout()?));
        Ok(Self::new(layout, client, config.cleanup_in_is_locked))
    }

    fn new(layout: Layout, client: Client, cleanup_in_is_locked: bool) -> Self {
        Self {
            layout,
            client: Arc::new(client),
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
        let (place, _) = self.layout.of_lock_id(lock_id);
        reply::released(self.client.run(place, &call).await?)
    }

    /// Nobody waits for it, and there is never more than one at a time.
    fn clean_up(&self, key: &Key, lock_id: LockId) {
        let (place, space) = self.layout.of_key(key);
        let Ok(names) = space.names(key, lock_id) else {
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
                .run(
                    place,
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

/// A place and a cursor in it, as [`written`] writes them.
fn read_place(text: &str) -> Option<(usize, &str)> {
    let (place, cursor) = text.split_once(':').unwrap_or(("0", text));
    // Redis would take a sign, and spaces.
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let valid = is_number(place) && is_number(cursor) && cursor.parse::<u64>().is_ok();
    valid
        .then(|| place.parse().ok())?
        .map(|place| (place, cursor))
}

fn written(place: usize, cursor: &str) -> String {
    match place {
        0 => cursor.to_owned(),
        place => format!("{place}:{cursor}"),
    }
}

#[async_trait]
impl Backend for RedisBackend {
    fn new_lock_id(&self, key: &Key) -> LockId {
        self.layout.new_lock_id(key)
    }

    /// What is asked on one thread goes over one connection; of a client of the program nothing is
    /// known.
    fn keeps_order(&self) -> bool {
        matches!(*self.client, Client::Native { .. })
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let (place, space) = self.layout.of_key(&request.key);
        if self.layout.of_lock_id(request.lock_id).0 != place {
            return Err(Error::internal("A lockId that leads to another place"));
        }
        let names = space.names(&request.key, request.lock_id)?;
        let (lock_id, key) = (request.lock_id.as_str(), request.key.as_str());
        let mut digits = itoa::Buffer::new();
        let ttl_ms = digits.format(request.ttl.ms());
        let call = Call {
            script: &scripts::ACQUIRE,
            keys: &[names.lock(), names.index(), names.fence()],
            args: Args {
                lean: &[lock_id, ttl_ms, &json::escape(key)],
                documented: &[lock_id, ttl_ms, TOLERANCE_MS, names.lock(), key],
            },
        };
        reply::acquired(self.client.form(), self.client.run(place, &call).await?)
    }

    async fn release(&self, lock_id: LockId) -> Result<ReleaseOutcome> {
        let (_, space) = self.layout.of_lock_id(lock_id);
        self.release_with(lock_id, &[&space.index_key(lock_id)?])
            .await
    }

    fn release_of<'a>(
        &'a self,
        lock_id: LockId,
        key: &'a Key,
    ) -> BoxFuture<'a, Result<ReleaseOutcome>> {
        if !self.client.is_lone_server() {
            return self.release(lock_id);
        }
        Box::pin(async move {
            let names = self.layout.of_key(key).1.names(key, lock_id)?;
            let keys = [names.index(), names.lock()];
            self.release_with(lock_id, &keys).await
        })
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        let ttl_ms = ttl.ms().to_string();
        let (place, space) = self.layout.of_lock_id(lock_id);
        let call = Call {
            script: &scripts::EXTEND,
            keys: &[&space.index_key(lock_id)?],
            args: Args {
                lean: &[lock_id.as_str(), &ttl_ms],
                documented: &[lock_id.as_str(), TOLERANCE_MS, &ttl_ms],
            },
        };
        reply::extended(self.client.run(place, &call).await?)
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        let (place, space) = self.layout.of_key(key);
        let call = Call {
            script: &scripts::IS_LOCKED,
            keys: &[&space.lock_key(key)?],
            args: Args::same(&[]),
        };
        match reply::presence(self.client.run(place, &call).await?)? {
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
        let (place, key, lock_id) = match query {
            LookupQuery::Key(key) => {
                let (place, space) = self.layout.of_key(key);
                (place, space.lock_key(key)?, "")
            }
            LookupQuery::LockId(lock_id) => {
                let (place, space) = self.layout.of_lock_id(*lock_id);
                (place, space.index_key(*lock_id)?, lock_id.as_str())
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
        reply::found(self.client.run(place, &call).await?)
    }

    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        let places = self.layout.places();
        let (place, cursor) = read_place(after.unwrap_or("0"))
            .filter(|(place, _)| *place < places.len())
            .ok_or_else(|| {
                Error::invalid_argument(
                    "Not a place in a list of locks: pass what the page before said",
                )
            })?;
        let (fence_start, limit) = (self.layout.fence_start(), limit.to_string());
        let tails: Vec<String> = places.iter().map(|space| self.layout.tail(space)).collect();
        let mut args = vec![cursor, &fence_start, &limit];
        if tails.len() > 1 {
            args.push(&tails[place]);
            args.extend(tails.iter().map(String::as_str));
        }
        let call = Call {
            script: &scripts::LIST,
            keys: &[places[place].start()],
            args: Args::same(&args),
        };
        let page = reply::page(self.client.run(place, &call).await?, &self.layout)?;
        let next = match page.next {
            None if place + 1 < places.len() => Some(written(place + 1, "0")),
            next => next.map(|cursor| written(place, &cursor)),
        };
        Ok(Page { next, ..page })
    }

    async fn force_release(&self, key: &Key) -> Result<bool> {
        let (place, space) = self.layout.of_key(key);
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
        reply::taken_away(self.client.run(place, &call).await?)
    }

    async fn report(&self) -> Result<Vec<Finding>> {
        let mut infos = Vec::new();
        for (place, space) in self.layout.places().iter().enumerate() {
            let ask = async |script| {
                let call = Call {
                    script,
                    keys: &[space.start()],
                    args: Args::same(&[]),
                };
                self.client.run(place, &call).await
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
        Ok(report::findings(&infos))
    }

    fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        let (place, space) = self.layout.of_key(key);
        self.client.watch(place, &space.lock_key(key).ok()?)
    }

    fn obstacle(&self) -> Option<Error> {
        self.client.obstacle()
    }

    async fn close(&self) {
        self.client.close();
    }
}
