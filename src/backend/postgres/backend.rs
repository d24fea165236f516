//! The operations: their statements, arguments and answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::SimpleQueryRow;

use super::acquire::NewLock;
use super::batch::{Batches, Request};
use super::config::PostgresConfig;
use super::connections::{Connections, RequestKind};
use super::report;
use super::sql::key::{self, StoredKey};
use super::sql::{Arg, Schema, Statement};
use super::watch::Watcher;
use crate::backend::report::Finding;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, Holder, LockRecord, LookupQuery, Miss,
    Page, ReleaseOutcome, ReleaseRequest, Warnings, Watch,
};
use crate::error::{Error, Result};
use crate::lock::{Fence, HolderLabel, Key, LockId, Ttl, fence};

pub struct PostgresBackend {
    connections: Arc<Connections>,
    schema: Schema,
    cleanup_in_is_locked: bool,
    cleaning_up: Arc<AtomicBool>,
    /// None if the pool has no connection to spare for it.
    watcher: Option<Watcher>,
    batches: Batches,
}

impl PostgresBackend {
    /// Creates a backend, which connects when it is first used.
    pub fn open(config: PostgresConfig, warnings: Warnings) -> Result<Self> {
        let config = config.check()?;
        let schema = Schema::new(&config);
        let (locks, cleanup_in_is_locked) = (config.locks.quoted(), config.cleanup_in_is_locked);
        let connections = Connections::new(config, warnings.clone());
        Ok(Self {
            schema,
            cleanup_in_is_locked,
            cleaning_up: Arc::default(),
            watcher: connections
                .can_listen
                .then(|| Watcher::new(Arc::clone(&connections), locks, warnings)),
            batches: Batches::new(Arc::clone(&connections)),
            connections,
        })
    }

    /// Runs a statement that returns at most one row.
    async fn ask(
        &self,
        kind: RequestKind,
        statement: &Statement,
        args: &[Arg<'_>],
    ) -> Result<Option<SimpleQueryRow>> {
        Ok(self.connections.run(kind, statement, args).await?.pop())
    }

    /// Removes an expired lock in the background. One at a time is enough: a lock that is skipped is
    /// removed after a later call.
    fn clean_up(&self, key: String) {
        if self.cleaning_up.swap(true, Ordering::Relaxed) {
            return;
        }
        let connections = Arc::clone(&self.connections);
        let cleaning_up = Arc::clone(&self.cleaning_up);
        tokio::spawn(async move {
            let statement = &connections.statements().clean_up;
            // A failure does not matter: a later call tries again.
            let _ = connections
                .run(RequestKind::Maintenance, statement, &[Arg::Text(&key)])
                .await;
            cleaning_up.store(false, Ordering::Relaxed);
        });
    }
}

#[async_trait]
impl Backend for PostgresBackend {
    async fn setup(&self) -> Result<()> {
        self.schema.create(&self.connections).await
    }

    fn schema(&self) -> Option<String> {
        Some(self.schema.sql.clone())
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let request = Request::Acquire(Arc::new(NewLock {
            stored: StoredKey::of(&request.key)?,
            lock_id: request.lock_id,
            ttl: request.ttl,
            label: request.label.clone(),
        }));
        let deadline = self.connections.deadline();
        acquired(&self.batches.run(request, deadline).await?)
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseOutcome> {
        let request = Request::Release(request.lock_id);
        let deadline = self.connections.deadline();
        let row = self.batches.run(request, deadline).await?;
        Ok(match missed(&row)? {
            None => ReleaseOutcome::Released,
            Some(miss) => ReleaseOutcome::Missed(miss),
        })
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        let statement = &self.connections.statements().extend;
        let args = [Arg::Text(lock_id.as_str()), Arg::Int(ttl.ms())];
        let row = self.ask(RequestKind::Extend, statement, &args).await?;
        let row = row.ok_or_else(unexpected)?;
        Ok(match missed(&row)? {
            None => ExtendOutcome::Extended {
                expires_at_ms: time(&row, 1)?,
            },
            Some(miss) => ExtendOutcome::Missed(miss),
        })
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        let StoredKey { key, .. } = StoredKey::of(key)?;
        let statement = &self.connections.statements().is_locked;
        let args = [Arg::Text(&key)];
        let Some(row) = self.ask(RequestKind::Read, statement, &args).await? else {
            return Ok(false);
        };
        if self.cleanup_in_is_locked && text(&row, 1)? == "t" {
            self.clean_up(key);
        }
        Ok(text(&row, 0)? == "t")
    }

    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        let statements = self.connections.statements();
        let (statement, by) = match query {
            LookupQuery::Key(key) => (&statements.lookup_key, StoredKey::of(key)?.key),
            LookupQuery::LockId(lock_id) => (&statements.lookup_id, lock_id.as_str().to_owned()),
        };
        let args = [Arg::Text(&by)];
        let row = self.ask(RequestKind::Read, statement, &args).await?;
        row.map(|row| record(&row)).transpose()
    }

    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        let statement = &self.connections.statements().list;
        // No key is empty, so all keys come after the empty text.
        let args = [Arg::Text(after.unwrap_or("")), Arg::Int(limit as u64)];
        let kind = RequestKind::Read;
        let rows = self.connections.run(kind, statement, &args).await?;
        let next = match rows.last() {
            Some(last) if rows.len() >= limit => Some(text(last, 0)?.to_owned()),
            _ => None,
        };
        let locks = rows.iter().map(record).collect::<Result<_>>()?;
        Ok(Page { locks, next })
    }

    async fn force_release(&self, key: &Key) -> Result<bool> {
        let StoredKey { key, .. } = StoredKey::of(key)?;
        let statement = &self.connections.statements().force_release;
        let args = [Arg::Text(&key)];
        let kind = RequestKind::Maintenance;
        Ok(self.ask(kind, statement, &args).await?.is_some())
    }

    async fn report(&self) -> Result<Vec<Finding>> {
        let row = self.schema.report(&self.connections).await?;
        let row = row.ok_or_else(unexpected)?;
        let is_complete = self.schema.is_set_up(&self.connections).await?;
        Ok(report::findings(&row, is_complete))
    }

    fn obstacle(&self) -> Option<Error> {
        self.connections.last_failure()
    }

    fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        self.watcher.as_ref()?.watch(key)
    }

    async fn close(&self) {
        if let Some(watcher) = &self.watcher {
            watcher.close();
        }
        self.connections.close();
    }
}

/// Reads the row of an acquire. The transaction is committed by now, so if the row of a grant cannot
/// be read, the lock must be undone.
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
        share: None,
    })
}

/// Reads the row of an extend or a release. Returns None if it was done.
pub(super) fn missed(row: &SimpleQueryRow) -> Result<Option<Miss>> {
    match text(row, 0)? {
        "done" => Ok(None),
        "expired" => Ok(Some(Miss::Expired)),
        "not found" => Ok(Some(Miss::NotFound)),
        _ => Err(unexpected()),
    }
}

/// Reads a row of `list.sql` or one of the lookups.
pub(super) fn record(row: &SimpleQueryRow) -> Result<LockRecord> {
    let lock_id = text(row, 2)?;
    Ok(LockRecord {
        key: key::original(text(row, 0)?, text(row, 1)?),
        lock_id: LockId::parse(lock_id).map_err(|_| damaged("lock_id"))?,
        label: label_of(row, lock_id),
        expires_at_ms: time(row, 3)?,
        acquired_at_ms: time(row, 4)?,
        fence: Fence::parse(text(row, 5)?)?,
        share: None,
    })
}

pub(super) fn text(row: &SimpleQueryRow, column: usize) -> Result<&str> {
    row.try_get(column).ok().flatten().ok_or_else(unexpected)
}

/// Returns None if the holder extended its lock at that very moment.
fn holder(row: &SimpleQueryRow) -> Option<Holder> {
    Some(Holder {
        expires_at_ms: time(row, 2).ok()?,
        free_in: Duration::from_millis(time(row, 3).ok()?),
        is_shared: false,
        label: row
            .try_get("holder_id")
            .ok()
            .flatten()
            .and_then(|lock_id| label_of(row, lock_id)),
    })
}

/// Returns the label if it belongs to this lock, and not to an earlier one in the same row.
fn label_of(row: &SimpleQueryRow, lock_id: &str) -> Option<HolderLabel> {
    let stored = row.try_get("holder_label").ok().flatten()?;
    HolderLabel::of_lock_id(stored, lock_id)
}

/// Reads milliseconds that JavaScript can represent exactly.
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

pub(super) fn unexpected() -> Error {
    Error::internal("PostgreSQL answered in an unexpected way")
}
