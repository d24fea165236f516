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
use super::sharing::{self, Sharing};
use super::sql::key::{self, StoredKey};
use super::sql::{Arg, Created, Schema, SetUp, Statement};
use super::watch::Watcher;
use super::{error, report};
use crate::backend::report::Finding;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, Capabilities, ExtendOutcome, HOLDER_BITS, Holder,
    LockRecord, LookupQuery, Miss, Page, ReleaseOutcome, ReleaseRequest, Warnings, Watch,
};
use crate::error::{Error, Result};
use crate::lock::{Access, Fence, HolderLabel, Key, LockId, Share, Ttl, fence};

pub struct PostgresBackend {
    connections: Arc<Connections>,
    schema: Schema,
    cleanup_in_is_locked: bool,
    cleaning_up: Arc<AtomicBool>,
    /// None if the pool has no connection to spare for it.
    watcher: Option<Watcher>,
    batches: Batches,
    sharing: Sharing,
    warnings: Warnings,
}

impl PostgresBackend {
    /// Creates a backend, which connects when it is first used.
    pub fn open(config: PostgresConfig, warnings: Warnings) -> Result<Self> {
        let config = config.check()?;
        let schema = Schema::new(&config);
        let (locks, cleanup_in_is_locked) =
            (config.tables.locks.quoted(), config.cleanup_in_is_locked);
        let connections = Connections::new(config, warnings.clone());
        Ok(Self {
            schema,
            cleanup_in_is_locked,
            cleaning_up: Arc::default(),
            watcher: connections
                .can_listen
                .then(|| Watcher::new(Arc::clone(&connections), locks, warnings.clone())),
            batches: Batches::new(Arc::clone(&connections)),
            sharing: Sharing::new(Arc::clone(&connections)),
            warnings,
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
            let args = [Arg::Text(&key)];
            let removed = connections.run(RequestKind::Maintenance, statement, &args);
            // A failure does not matter: a later call tries again.
            if let Ok(Some(row)) = removed.await.map(|mut rows| rows.pop()) {
                sharing::remove_holders(&connections, &key, text(&row, 1).unwrap_or_default())
                    .await;
            }
            cleaning_up.store(false, Ordering::Relaxed);
        });
    }

    async fn acquire_share(&self, lock: &NewLock, limit: u32) -> Result<AcquireOutcome> {
        let error = match self.sharing.acquire(lock, limit).await {
            Err(error) if error::is_missing_table(&error) => error,
            outcome => return outcome,
        };
        match self.schema.set_up(&self.connections).await {
            Ok(SetUp {
                locks: true,
                sharing: false,
                ..
            }) => Err(error::without_holders(self.schema.holders(), &error)),
            _ => Err(error),
        }
    }

    /// Lists more holders of a shared key.
    async fn list_holders(&self, key: &str, after: &str, limit: usize) -> Result<Page> {
        let rows = self.sharing.list(&[key], after, limit).await?;
        let rows = rows.unwrap_or_default();
        let more = last_if_full(&rows, limit)?.map(|(_, cursor)| cursor);
        Ok(Page {
            next: Some(more.unwrap_or_else(|| key.to_owned())),
            locks: rows.iter().map(sharing::record).collect::<Result<_>>()?,
        })
    }
}

#[async_trait]
impl Backend for PostgresBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            supports_sharing: true,
            shared_lock_id_bits: Some(HOLDER_BITS),
            ..Capabilities::default()
        }
    }

    async fn setup(&self) -> Result<()> {
        if self.schema.create(&self.connections).await? == Created::WithoutSharing {
            self.warnings.warn(&format!(
                "The PostgreSQL role may not create the table {}, so keys cannot be shared (concurrency, \
                 mode): run npx syncguard schema --apply as a role that may. Exclusive locks work",
                self.schema.holders()
            ));
        }
        Ok(())
    }

    fn schema(&self) -> Option<String> {
        Some(self.schema.sql())
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let lock = NewLock {
            stored: StoredKey::of(&request.key)?,
            lock_id: request.lock_id,
            ttl: request.ttl,
            label: request.label.clone(),
        };
        if let Access::Shared { limit } = request.access {
            return self.acquire_share(&lock, limit).await;
        }
        let deadline = self.connections.deadline();
        let acquire = Request::Acquire(Arc::new(lock));
        let outcome = acquired(&self.batches.run(acquire, deadline).await?)?;
        if let (AcquireOutcome::Locked(Some(holder)), Some(mark)) = (&outcome, &request.mark)
            && holder.is_shared
        {
            let key = StoredKey::of(&request.key)?;
            self.sharing.mark(&key.key, mark, deadline).await;
        }
        Ok(outcome)
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseOutcome> {
        if sharing::is_holder(&request.lock_id) {
            match self.sharing.release(&request.lock_id).await? {
                ReleaseOutcome::Missed(Miss::NotFound) => {}
                outcome => return Ok(outcome),
            }
        }
        let request = Request::Release(request.lock_id);
        let deadline = self.connections.deadline();
        released(&self.batches.run(request, deadline).await?)
    }

    async fn unmark(&self, key: &Key, mark: LockId) -> Result<()> {
        self.sharing.unmark(&StoredKey::of(key)?.key, &mark).await
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        if sharing::is_holder(&lock_id) {
            match self.sharing.extend(&lock_id, ttl).await? {
                ExtendOutcome::Missed(Miss::NotFound) => {}
                outcome => return Ok(outcome),
            }
        }
        let statement = &self.connections.statements().extend;
        let args = [Arg::Text(lock_id.as_str()), Arg::Int(ttl.ms())];
        let row = self.ask(RequestKind::Extend, statement, &args).await?;
        extended(&row.ok_or_else(unexpected)?)
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
        if let LookupQuery::LockId(lock_id) = query
            && sharing::is_holder(lock_id)
            && let Some(found) = self.sharing.lookup_id(lock_id).await?
        {
            return Ok(Some(found));
        }
        let statements = self.connections.statements();
        let (statement, by) = match query {
            LookupQuery::Key(key) => (&statements.lookup_key, StoredKey::of(key)?.key),
            LookupQuery::LockId(lock_id) => (&statements.lookup_id, lock_id.as_str().to_owned()),
        };
        let args = [Arg::Text(&by)];
        let Some(row) = self.ask(RequestKind::Read, statement, &args).await? else {
            return Ok(None);
        };
        if matches!(query, LookupQuery::Key(_))
            && sharing::is_record(text(&row, 2)?)
            && let Some(found) = self.sharing.lookup_key(&by).await?
        {
            return Ok(found);
        }
        record(&row).map(Some)
    }

    /// The cursor is the last key of a page. If its other holders are on the next page, the last lockId follows
    /// after a U+0000, which stored keys do not contain.
    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        // No key is empty, so all keys come after the empty text.
        let after = after.unwrap_or("");
        if let Some((key, lock_id)) = after.split_once('\0') {
            return self.list_holders(key, lock_id, limit).await;
        }
        let statement = &self.connections.statements().list;
        let args = [Arg::Text(after), Arg::Int(limit as u64)];
        let kind = RequestKind::Read;
        let mut rows = self.connections.run(kind, statement, &args).await?;
        let mut next = match rows.last() {
            Some(last) if rows.len() >= limit => Some(text(last, 0)?.to_owned()),
            _ => None,
        };
        let mut shared = Vec::new();
        for row in &rows {
            if sharing::is_record(text(row, 2)?) {
                shared.push(text(row, 0)?);
            }
        }
        let mut holders = Vec::new();
        if !shared.is_empty()
            && let Some(found) = self.sharing.list(&shared, "", limit).await?
        {
            if let Some((last, cursor)) = last_if_full(&found, limit)? {
                // What comes after that key is on a later page.
                let index = rows.iter().position(|row| text(row, 0) == Ok(last));
                rows.truncate(index.map_or(0, |index| index + 1));
                next = Some(cursor);
            }
            rows.retain(|row| !text(row, 2).is_ok_and(sharing::is_record));
            holders = found;
        }
        let locks = rows.iter().map(record);
        let holders = holders.iter().map(sharing::record);
        Ok(Page {
            locks: locks.chain(holders).collect::<Result<_>>()?,
            next,
        })
    }

    async fn force_release(&self, key: &Key) -> Result<bool> {
        let StoredKey { key, .. } = StoredKey::of(key)?;
        let statement = &self.connections.statements().force_release;
        let args = [Arg::Text(&key)];
        let kind = RequestKind::Maintenance;
        let Some(row) = self.ask(kind, statement, &args).await? else {
            return Ok(false);
        };
        sharing::remove_holders(&self.connections, &key, text(&row, 1)?).await;
        Ok(true)
    }

    async fn report(&self) -> Result<Vec<Finding>> {
        let row = self.schema.report(&self.connections).await?;
        let row = row.ok_or_else(unexpected)?;
        let set_up = self.schema.set_up(&self.connections).await?;
        Ok(report::findings(&row, set_up))
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
        "shared" => granted_share(row).map_err(Error::outcome_unknown),
        _ => granted(row, None).map_err(Error::outcome_unknown),
    }
}

fn granted_share(row: &SimpleQueryRow) -> Result<AcquireOutcome> {
    let share = sharing::share(row)?.ok_or_else(unexpected)?;
    granted(row, Some(share))
}

fn granted(row: &SimpleQueryRow, share: Option<Share>) -> Result<AcquireOutcome> {
    Ok(AcquireOutcome::Acquired {
        fence: Fence::parse(text(row, 1)?)?,
        expires_at_ms: time(row, 2)?,
        share,
    })
}

/// Reads the row of a release.
pub(super) fn released(row: &SimpleQueryRow) -> Result<ReleaseOutcome> {
    Ok(match missed(row)? {
        None => ReleaseOutcome::Released,
        Some(miss) => ReleaseOutcome::Missed(miss),
    })
}

/// Reads the row of an extend.
pub(super) fn extended(row: &SimpleQueryRow) -> Result<ExtendOutcome> {
    Ok(match missed(row)? {
        None => ExtendOutcome::Extended {
            expires_at_ms: time(row, 1)?,
        },
        Some(miss) => ExtendOutcome::Missed(miss),
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

/// Returns the key of the last holder on a page, and the cursor behind it, if the page is full.
fn last_if_full(rows: &[SimpleQueryRow], limit: usize) -> Result<Option<(&str, String)>> {
    let Some(last) = rows.last().filter(|_| rows.len() >= limit) else {
        return Ok(None);
    };
    let (key, lock_id) = (text(last, 0)?, text(last, 2)?);
    Ok(Some((key, format!("{key}\0{lock_id}"))))
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
    let lock_id = row.try_get("holder_id").ok().flatten();
    Some(Holder {
        expires_at_ms: time(row, 2).ok()?,
        free_in: Duration::from_millis(time(row, 3).ok()?),
        is_shared: lock_id.is_some_and(sharing::is_shared),
        label: lock_id.and_then(|lock_id| label_of(row, lock_id)),
    })
}

/// Returns the label if it belongs to this lock, and not to an earlier one in the same row.
fn label_of(row: &SimpleQueryRow, lock_id: &str) -> Option<HolderLabel> {
    let stored = row.try_get("holder_label").ok().flatten()?;
    HolderLabel::of_lock_id(stored, lock_id)
}

/// Reads milliseconds that JavaScript can represent exactly.
pub(super) fn time(row: &SimpleQueryRow, column: usize) -> Result<u64> {
    text(row, column)?
        .parse()
        .ok()
        .filter(|ms| *ms <= (1 << 53))
        .ok_or_else(|| damaged("time"))
}

pub(super) fn damaged(what: &str) -> Error {
    Error::internal(format!(
        "The stored {what} is not valid: the lock's data was changed by something else"
    ))
}

pub(super) fn unexpected() -> Error {
    Error::internal("PostgreSQL answered in an unexpected way")
}
