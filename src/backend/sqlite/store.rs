//! The operations as SQL, inside the caller's transaction.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::shared::{self, SharedHolder, SharedRecord};
use super::values::{is_future, live, live_after, stored, text, time};
use crate::backend::{
    AcquireOutcome, AcquireRequest, ExtendOutcome, Holder, LockRecord, LookupQuery, Miss, Page,
    ReleaseOutcome,
};
use crate::error::{Error, Result};
use crate::lock::key::{KeyBudget, storage_key};
use crate::lock::share::Mark;
use crate::lock::time::TIME_TOLERANCE_MS;
use crate::lock::{Fence, HolderLabel, Key, LockId, Share, Ttl};

pub(super) type Sql<T> = std::result::Result<T, StoreError>;

/// Why an operation failed. The transaction must be rolled back.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum StoreError {
    Ours(#[from] Error),
    Sqlite(#[from] rusqlite::Error),
}

/// The limits of the PostgreSQL tables, whose layout the file shares.
const BUDGET: KeyBudget = KeyBudget {
    limit_bytes: 1700,
    reserve_bytes: 0,
};

pub(super) fn stored_key(key: &str) -> Result<String> {
    storage_key("", key, BUDGET)
}

/// Returns the key under which the fence counter of a stored key is kept.
fn fence_key(stored_key: &str) -> Result<String> {
    storage_key("", &format!("fence:{stored_key}"), BUDGET)
}

/// A row of `syncguard_locks`: an exclusive lock or a shared record.
pub(super) struct Record {
    pub(super) lock_id: String,
    expires_at_ms: u64,
    acquired_at_ms: u64,
    is_shared: bool,
    /// The last fence of the key.
    pub(super) fence: u64,
    label: Option<HolderLabel>,
}

impl Record {
    pub(super) fn find(db: &Connection, key: &str) -> rusqlite::Result<Option<Self>> {
        db.prepare_cached(include_str!("sql/holder.sql"))?
            .query_row([key], |row| {
                Ok(Self {
                    lock_id: text(row, 2).unwrap_or_default().to_owned(),
                    expires_at_ms: time(row, 0)?,
                    acquired_at_ms: time(row, 1)?,
                    is_shared: row.get(4)?,
                    fence: text(row, 3)
                        .and_then(|fence| fence.parse().ok())
                        .unwrap_or(0),
                    label: label(row),
                })
            })
            .optional()
    }

    pub(super) fn is_live(&self, now_ms: u64) -> bool {
        live(self.expires_at_ms, now_ms)
    }

    /// Reads the holders of a shared record. None if the record is an exclusive lock.
    pub(super) fn shared(
        &self,
        db: &Connection,
        now_ms: u64,
    ) -> rusqlite::Result<Option<SharedRecord>> {
        if !self.is_shared {
            return Ok(None);
        }
        SharedRecord::read(db, &self.lock_id, self.expires_at_ms, now_ms)
    }

    /// As [`shared`](Self::shared), to write it afterwards.
    fn open_shared(&self, db: &Connection, now_ms: u64) -> rusqlite::Result<Option<SharedRecord>> {
        if !self.is_shared {
            return Ok(None);
        }
        SharedRecord::open(db, &self.lock_id, self.expires_at_ms, now_ms)
    }

    /// Returns this exclusive lock as what refuses an attempt.
    fn as_holder(&self, db: &Connection, key: &str, now_ms: u64) -> rusqlite::Result<Holder> {
        let mut expires_at_ms = self.expires_at_ms;
        if is_future(self.acquired_at_ms, now_ms) {
            expires_at_ms = db
                .prepare_cached(include_str!("sql/rebase.sql"))?
                .query_row(params![key, stored(now_ms)], |row| time(row, 0))?;
        }
        let free_at_ms = expires_at_ms.saturating_add(TIME_TOLERANCE_MS);
        Ok(Holder {
            free_in: Duration::from_millis(free_at_ms.saturating_sub(now_ms)),
            expires_at_ms,
            is_shared: false,
            label: self.label.clone(),
        })
    }
}

pub(super) fn acquire(
    db: &Connection,
    request: &AcquireRequest,
    now_ms: u64,
) -> Sql<AcquireOutcome> {
    let user_key = request.key.as_str();
    let key = stored_key(user_key)?;
    let fence_key = fence_key(&key)?;
    let record = Record::find(db, &key)?;
    let shared = match &record {
        // A record that has expired may still have a mark, which keeps shared attempts out.
        Some(record) if record.is_live(now_ms) || request.access.is_shared() => {
            record.open_shared(db, now_ms)?
        }
        _ => None,
    };
    let obstacle = match (&shared, &record) {
        (Some(shared), _) => shared.obstacle(request.access, now_ms),
        (None, Some(lock)) if lock.is_live(now_ms) => Some(lock.as_holder(db, &key, now_ms)?),
        _ => None,
    };
    if let Some(holder) = obstacle {
        if let (Some(shared), Some(id)) = (shared, request.mark) {
            shared.leave_mark(db, Mark::new(id, now_ms))?;
        }
        return Ok(AcquireOutcome::Locked(Some(holder)));
    }
    let fence = count_fence(db, &fence_key, user_key)?;
    let share = if request.access.is_shared() {
        Some(shared::grant(db, &key, shared, request, fence, now_ms)?)
    } else {
        if let Some(expired) = record.filter(|record| record.is_shared) {
            shared::remove_holders(db, &expired.lock_id)?;
        }
        write_exclusive(db, &key, request, fence, now_ms)?;
        None
    };
    Ok(AcquireOutcome::Acquired {
        fence,
        expires_at_ms: now_ms.saturating_add(request.ttl.ms()),
        share,
    })
}

/// Returns the next fence, and stores it as the last one.
fn count_fence(db: &Connection, fence_key: &str, user_key: &str) -> Sql<Fence> {
    let last = db
        .prepare_cached(include_str!("sql/last_fence.sql"))?
        .query_row([fence_key], |row| row.get::<_, i64>(0))
        .optional()?
        .unwrap_or(0);
    let fence = Fence::after(u64::try_from(last).unwrap_or(u64::MAX))?;
    db.prepare_cached(include_str!("sql/count_fence.sql"))?
        .execute(params![fence_key, stored(fence.value()), user_key])?;
    Ok(fence)
}

fn write_exclusive(
    db: &Connection,
    key: &str,
    request: &AcquireRequest,
    fence: Fence,
    now_ms: u64,
) -> rusqlite::Result<()> {
    let fence_text = fence.to_string();
    let columns = params![
        key,
        request.lock_id.as_str(),
        stored(now_ms.saturating_add(request.ttl.ms())),
        stored(now_ms),
        fence_text,
        request.key.as_str()
    ];
    match &request.label {
        None => db
            .prepare_cached(include_str!("sql/acquire.sql"))?
            .execute(columns)?,
        Some(label) => {
            let label = label.with_lock_id(request.lock_id);
            acquire_labelled(db, columns, &label)?
        }
    };
    Ok(())
}

fn acquire_labelled(
    db: &Connection,
    columns: &[&dyn ToSql],
    label: &str,
) -> rusqlite::Result<usize> {
    let has_labels: bool = db
        .prepare_cached(include_str!("sql/has_labels.sql"))?
        .query_row([], |row| row.get(0))?;
    if !has_labels {
        db.execute(include_str!("sql/add_labels.sql"), [])?;
    }
    let columns: Vec<&dyn ToSql> = columns
        .iter()
        .copied()
        .chain([&label as &dyn ToSql])
        .collect();
    db.prepare_cached(include_str!("sql/acquire_labelled.sql"))?
        .execute(&*columns)
}

pub(super) fn release(db: &Connection, lock_id: LockId, now_ms: u64) -> Sql<ReleaseOutcome> {
    let is_live = match remove(db, lock_id)? {
        Some(expires_at_ms) => live(expires_at_ms, now_ms),
        None => {
            let Some(mut record) = SharedRecord::of_holder(db, lock_id, now_ms)? else {
                return Ok(ReleaseOutcome::Missed(Miss::NotFound));
            };
            record.remove(db, lock_id, now_ms)?
        }
    };
    Ok(if is_live {
        ReleaseOutcome::Released
    } else {
        ReleaseOutcome::Missed(Miss::Expired)
    })
}

/// Removes a waiting writer's mark from a shared record.
pub(super) fn unmark(db: &Connection, key: &Key, mark: LockId, now_ms: u64) -> Sql<()> {
    let record = Record::find(db, &stored_key(key.as_str())?)?;
    if let Some(record) = record
        && let Some(mut shared) = record.open_shared(db, now_ms)?
    {
        shared.unmark(db, mark, now_ms)?;
    }
    Ok(())
}

pub(super) fn extend(
    db: &Connection,
    lock_id: LockId,
    ttl: Ttl,
    now_ms: u64,
) -> Sql<ExtendOutcome> {
    let expires_at_ms = now_ms.saturating_add(ttl.ms());
    let extended = db
        .prepare_cached(include_str!("sql/extend.sql"))?
        .execute(params![
            lock_id.as_str(),
            stored(now_ms),
            stored(expires_at_ms),
            live_after(now_ms)
        ])?;
    if extended > 0 {
        return Ok(ExtendOutcome::Extended { expires_at_ms });
    }
    // If the lock is still there, it did not match because it has expired.
    if remove(db, lock_id)?.is_some() {
        return Ok(ExtendOutcome::Missed(Miss::Expired));
    }
    let Some(mut record) = SharedRecord::of_holder(db, lock_id, now_ms)? else {
        return Ok(ExtendOutcome::Missed(Miss::NotFound));
    };
    if record.extend(db, lock_id, expires_at_ms, now_ms)? {
        return Ok(ExtendOutcome::Extended { expires_at_ms });
    }
    record.remove(db, lock_id, now_ms)?;
    Ok(ExtendOutcome::Missed(Miss::Expired))
}

pub(super) fn is_locked(db: &Connection, key: &Key, now_ms: u64) -> Sql<bool> {
    let key = stored_key(key.as_str())?;
    let expires_at_ms = db
        .prepare_cached(include_str!("sql/holder.sql"))?
        .query_row([key], |row| time(row, 0))
        .optional()?;
    Ok(expires_at_ms.is_some_and(|at_ms| live(at_ms, now_ms)))
}

/// Returns the lock, and of several that share a key the one that expires last.
pub(super) fn lookup(db: &Connection, query: &LookupQuery, now_ms: u64) -> Sql<Option<LockRecord>> {
    let found = match query {
        LookupQuery::Key(key) => {
            let key = stored_key(key.as_str())?;
            live_locks(db, include_str!("sql/find_key.sql"), &key, now_ms)?
        }
        LookupQuery::LockId(lock_id) => {
            let mut found = Vec::new();
            for sql in [
                include_str!("sql/find_id.sql"),
                include_str!("sql/record_of_holder.sql"),
            ] {
                if found.is_empty() {
                    found = live_locks(db, sql, lock_id.as_str(), now_ms)?;
                }
            }
            // The other holders of a shared record, or all of them if this is the id of the record.
            found.retain(|lock| lock.lock_id == *lock_id);
            found
        }
    };
    Ok(found.into_iter().max_by_key(|lock| lock.expires_at_ms))
}

/// Returns the live locks of the record that this statement finds.
fn live_locks(db: &Connection, sql: &str, value: &str, now_ms: u64) -> Sql<Vec<LockRecord>> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([value])?;
    match rows.next()? {
        Some(row) => locks_of(db, row, now_ms),
        None => Ok(Vec::new()),
    }
}

/// Returns the live locks of a record: one, or those that share its key.
fn locks_of(db: &Connection, row: &Row<'_>, now_ms: u64) -> Sql<Vec<LockRecord>> {
    let expires_at_ms = time(row, 2)?;
    if !live(expires_at_ms, now_ms) {
        return Ok(Vec::new());
    }
    let id = text(row, "lock_id").unwrap_or_default();
    let Some(shared) = SharedRecord::read(db, id, expires_at_ms, now_ms)? else {
        return Ok(vec![exclusive_lock(row)?]);
    };
    let user_key: String = row.get(0)?;
    let locks = shared.holders.iter();
    locks
        .map(|holder| shared_lock(&user_key, holder, shared.share_of(holder)))
        .collect()
}

/// Reads a page of `limit` records, live or not, so that it is a short read however many have expired.
/// Locks that share a key are on one page.
pub(super) fn list(db: &Connection, after: Option<&str>, limit: usize, now_ms: u64) -> Sql<Page> {
    let limit = limit.max(1);
    let mut statement = db.prepare_cached(include_str!("sql/list.sql"))?;
    let mut rows = statement.query(params![
        after.unwrap_or_default(),
        i64::try_from(limit).unwrap_or(i64::MAX)
    ])?;
    let mut page = Page::default();
    let mut seen = 0;
    while let Some(row) = rows.next()? {
        page.locks.extend(locks_of(db, row, now_ms)?);
        seen += 1;
        if seen == limit {
            page.next = Some(row.get(5)?);
        }
    }
    Ok(page)
}

pub(super) fn force_release(db: &Connection, key: &Key, now_ms: u64) -> Sql<bool> {
    let key = stored_key(key.as_str())?;
    let removed = db
        .prepare_cached(include_str!("sql/remove_key.sql"))?
        .query_row([key], |row| {
            let id = text(row, "lock_id").unwrap_or_default();
            Ok((id.to_owned(), time(row, 0)?))
        })
        .optional()?;
    let Some((id, expires_at_ms)) = removed else {
        return Ok(false);
    };
    shared::remove_holders(db, &id)?;
    Ok(live(expires_at_ms, now_ms))
}

fn remove(db: &Connection, lock_id: LockId) -> rusqlite::Result<Option<u64>> {
    db.prepare_cached(include_str!("sql/remove.sql"))?
        .query_row([lock_id.as_str()], |row| time(row, 0))
        .optional()
}

fn exclusive_lock(row: &Row<'_>) -> Sql<LockRecord> {
    let (lock_id, fence) = checked(text(row, "lock_id"), text(row, "fence"))?;
    Ok(LockRecord {
        key: row.get(0)?,
        lock_id,
        expires_at_ms: time(row, 2)?,
        acquired_at_ms: time(row, 3)?,
        fence,
        label: label(row),
        share: None,
    })
}

fn shared_lock(user_key: &str, holder: &SharedHolder, share: Share) -> Sql<LockRecord> {
    let (lock_id, fence) = checked(Some(&holder.lock_id), Some(&holder.fence))?;
    Ok(LockRecord {
        key: user_key.to_owned(),
        lock_id,
        expires_at_ms: holder.expires_at_ms,
        acquired_at_ms: holder.acquired_at_ms,
        fence,
        label: holder.label.clone(),
        share: Some(share),
    })
}

fn checked(lock_id: Option<&str>, fence: Option<&str>) -> Result<(LockId, Fence)> {
    let lock_id = LockId::parse(lock_id.unwrap_or_default());
    let fence = Fence::parse(fence.unwrap_or_default());
    let (Ok(lock_id), Ok(fence)) = (lock_id, fence) else {
        return Err(Error::internal(
            "A stored lock is malformed: another program has changed the lock file. Force the release of the lock, or delete the file while nothing uses it",
        ));
    };
    Ok((lock_id, fence))
}

/// Reads the label of an exclusive lock from a row with all columns. None if the table has no labels, or
/// if the label belongs to an earlier lock.
fn label(row: &Row<'_>) -> Option<HolderLabel> {
    HolderLabel::of_lock_id(text(row, "holder_label")?, text(row, "lock_id")?)
}
