//! The operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use tokio_postgres::SimpleQueryRow;

use super::client::Client;
use super::config::PostgresConfig;
use super::error;
use super::report;
use super::sql::key::{self, StoredKey};
use super::sql::{Arg, Removal, Schema};
use super::together::{Request, Together, Wanted};
use super::watch::Watches;
use crate::backend::report::Finding;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, Holder, LockRecord, LookupQuery, Miss,
    Page, ReleaseOutcome, Warnings, Watch,
};
use crate::error::{Error, Result};
use crate::event_loop::EventLoop;
use crate::lock::{Fence, Key, LockId, Ttl, fence};

pub struct PostgresBackend {
    client: Client,
    schema: Schema,
    cleanup_in_is_locked: bool,
    cleaning_up: Arc<AtomicBool>,
    /// Nothing behind a pooler that is known to keep no session.
    watches: Option<Watches>,
    together: Together,
    /// The role may not tell those who wait.
    silent: Arc<AtomicBool>,
    warnings: Warnings,
}

impl PostgresBackend {
    /// Connects on first use.
    pub fn open(
        config: PostgresConfig,
        warnings: Warnings,
        home: Option<Arc<dyn EventLoop>>,
    ) -> Result<Self> {
        let config = config.check()?;
        let schema = Schema::new(&config.locks, &config.counters, config.operation_timeout);
        let (locks, cleanup_in_is_locked) = (config.locks.quoted(), config.cleanup_in_is_locked);
        let keeps_sessions = config.prepare;
        let client = Client::new(config, home)?;
        let silent = Arc::default();
        Ok(Self {
            schema,
            cleanup_in_is_locked,
            cleaning_up: Arc::default(),
            watches: keeps_sessions.then(|| Watches::new(client.clone(), locks, warnings.clone())),
            together: Together::new(client.clone(), Arc::clone(&silent)),
            client,
            silent,
            warnings,
        })
    }

    async fn acquire_alone(&self, wanted: &Wanted, deadline: Instant) -> Result<AcquireOutcome> {
        let StoredKey { key, user_key } = &wanted.stored;
        let statements = self.client.statements();
        let rows = self
            .client
            .rows_by(
                deadline,
                &[
                    (&statements.take_turn, &[Arg::Text(key), Arg::TimeLeft]),
                    (
                        &statements.acquire,
                        &[
                            Arg::Text(key),
                            Arg::Text(wanted.lock_id.as_str()),
                            Arg::Int(wanted.ttl.ms()),
                            Arg::Text(user_key),
                        ],
                    ),
                ],
            )
            .await?;
        acquired(rows.last().ok_or_else(|| unexpected().outcome_unknown())?)
    }

    /// A notification is never needed: where the role may not send it, the lock is removed without.
    async fn remove(
        &self,
        removal: &Removal,
        by: &str,
        deadline: Instant,
    ) -> Result<Option<SimpleQueryRow>> {
        let args = [Arg::Text(by)];
        let remove = async |statement| {
            let rows = self.client.rows_by(deadline, &[(statement, &args)]).await;
            Ok(rows?.pop())
        };
        if !self.silent.load(Ordering::Relaxed) {
            match remove(&removal.telling).await {
                Err(error) if error::is_forbidden(&error) => {}
                answer => return answer,
            }
        }
        let row = remove(&removal.silent).await?;
        if !self.silent.swap(true, Ordering::Relaxed) {
            self.warnings.debug(
                "The PostgreSQL role may not execute pg_notify or pg_try_advisory_xact_lock: \
                 those who wait for a lock are not told when it is released, and look by themselves",
            );
        }
        Ok(row)
    }

    /// Removes an expired lock in the background; one at a time is enough, others will come.
    fn clean_up(&self, key: String) {
        if self.cleaning_up.swap(true, Ordering::Relaxed) {
            return;
        }
        let client = self.client.clone();
        let cleaning_up = Arc::clone(&self.cleaning_up);
        let silent = self.silent.load(Ordering::Relaxed);
        tokio::spawn(async move {
            let statement = client.statements().clean_up.statement(silent);
            // Best effort: the next one tries again.
            let _ = client.call(&[(statement, &[Arg::Text(&key)])]).await;
            cleaning_up.store(false, Ordering::Relaxed);
        });
    }
}

#[async_trait]
impl Backend for PostgresBackend {
    async fn setup(&self) -> Result<()> {
        self.schema.create(&self.client).await
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let wanted = Arc::new(Wanted {
            stored: StoredKey::of(&request.key)?,
            lock_id: request.lock_id,
            ttl: request.ttl,
        });
        let deadline = self.client.deadline();
        let _under_way = self.together.enter();
        let request = Request::Acquire(Arc::clone(&wanted));
        match self.together.ask(request, deadline).await? {
            Some(row) => acquired(&row),
            None => self.acquire_alone(&wanted, deadline).await,
        }
    }

    async fn release(&self, lock_id: LockId) -> Result<ReleaseOutcome> {
        let deadline = self.client.deadline();
        let _under_way = self.together.enter();
        let removal = &self.client.statements().release;
        let row = match self
            .together
            .ask(Request::Release(lock_id), deadline)
            .await?
        {
            None => self.remove(removal, lock_id.as_str(), deadline).await?,
            row => row,
        };
        Ok(match missed(&row.ok_or_else(unexpected)?)? {
            None => ReleaseOutcome::Released,
            Some(miss) => ReleaseOutcome::Missed(miss),
        })
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        let statement = &self.client.statements().extend;
        let args = [Arg::Text(lock_id.as_str()), Arg::Int(ttl.ms())];
        let row = self
            .client
            .call(&[(statement, &args)])
            .await?
            .ok_or_else(unexpected)?;
        Ok(match missed(&row)? {
            None => ExtendOutcome::Extended {
                expires_at_ms: time(&row, 1)?,
            },
            Some(miss) => ExtendOutcome::Missed(miss),
        })
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        let StoredKey { key, .. } = StoredKey::of(key)?;
        let statement = &self.client.statements().is_locked;
        let args = [Arg::Text(&key)];
        let Some(row) = self.client.call(&[(statement, &args)]).await? else {
            return Ok(false);
        };
        if self.cleanup_in_is_locked && text(&row, 1)? == "t" {
            self.clean_up(key);
        }
        Ok(text(&row, 0)? == "t")
    }

    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        let statements = self.client.statements();
        let row = match query {
            LookupQuery::Key(key) => {
                let StoredKey { key, .. } = StoredKey::of(key)?;
                let args = [Arg::Text(&key)];
                self.client.call(&[(&statements.lookup_key, &args)]).await?
            }
            LookupQuery::LockId(lock_id) => {
                let args = [Arg::Text(lock_id.as_str())];
                self.client.call(&[(&statements.lookup_id, &args)]).await?
            }
        };
        row.map(|row| record(&row)).transpose()
    }

    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        let statement = &self.client.statements().list;
        // No key is empty, so all of them come after this.
        let args = [Arg::Text(after.unwrap_or("")), Arg::Int(limit as u64)];
        let rows = self.client.rows(&[(statement, &args)]).await?;
        let next = match rows.last() {
            Some(last) if rows.len() >= limit => Some(text(last, 0)?.to_owned()),
            _ => None,
        };
        let locks = rows.iter().map(record).collect::<Result<_>>()?;
        Ok(Page { locks, next })
    }

    async fn force_release(&self, key: &Key) -> Result<bool> {
        let StoredKey { key, .. } = StoredKey::of(key)?;
        let removal = &self.client.statements().force_release;
        let removed = self.remove(removal, &key, self.client.deadline()).await?;
        Ok(removed.is_some())
    }

    async fn report(&self) -> Result<Vec<Finding>> {
        let (row, is_complete) = self.schema.report(&self.client).await?;
        let row = row.ok_or_else(unexpected)?;
        Ok(report::findings(&row, is_complete))
    }

    fn obstacle(&self) -> Option<Error> {
        self.client.obstacle()
    }

    fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        let StoredKey { key, .. } = StoredKey::of(key).ok()?;
        Some(Box::new(self.watches.as_ref()?.watch(key)))
    }

    async fn close(&self) {
        if let Some(watches) = &self.watches {
            watches.close();
        }
        self.client.close();
    }
}

/// By now it is committed: a grant that cannot be read must be undone.
pub(super) fn acquired(row: &SimpleQueryRow) -> Result<AcquireOutcome> {
    match text(row, 0).map_err(Error::outcome_unknown)? {
        "locked" => Ok(AcquireOutcome::Locked(holder(row))),
        "no fence left" => Err(fence::overflow()),
        _ => granted(row).map_err(Error::outcome_unknown),
    }
}

fn granted(row: &SimpleQueryRow) -> Result<AcquireOutcome> {
    Ok(AcquireOutcome::Acquired {
        fence: Fence::parse(text(row, 1)?)?,
        expires_at_ms: time(row, 2)?,
    })
}

pub(super) fn missed(row: &SimpleQueryRow) -> Result<Option<Miss>> {
    match text(row, 0)? {
        "done" => Ok(None),
        "expired" => Ok(Some(Miss::Expired)),
        "not found" => Ok(Some(Miss::NotFound)),
        _ => Err(unexpected()),
    }
}

pub(super) fn record(row: &SimpleQueryRow) -> Result<LockRecord> {
    Ok(LockRecord {
        key: key::original(text(row, 0)?, text(row, 1)?),
        lock_id: LockId::parse(text(row, 2)?).map_err(|_| damaged("lock_id"))?,
        expires_at_ms: time(row, 3)?,
        acquired_at_ms: time(row, 4)?,
        fence: Fence::parse(text(row, 5)?)?,
    })
}

fn text(row: &SimpleQueryRow, column: usize) -> Result<&str> {
    row.try_get(column).ok().flatten().ok_or_else(unexpected)
}

/// Nothing of a lock that was extended in that very moment.
fn holder(row: &SimpleQueryRow) -> Option<Holder> {
    Some(Holder {
        expires_at_ms: time(row, 2).ok()?,
        free_in: Duration::from_millis(time(row, 3).ok()?),
    })
}

/// Milliseconds that are exact in JavaScript.
fn time(row: &SimpleQueryRow, column: usize) -> Result<u64> {
    text(row, column)?
        .parse()
        .ok()
        .filter(|ms| *ms <= (1 << 53))
        .ok_or_else(|| damaged("time"))
}

fn damaged(what: &str) -> Error {
    Error::internal(format!(
        "The stored {what} is not valid: the lock's data was changed by something else"
    ))
}

fn unexpected() -> Error {
    Error::internal("PostgreSQL answered in an unexpected way")
}
