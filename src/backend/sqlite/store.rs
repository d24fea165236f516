//! The operations as SQL, inside the caller's transaction.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use crate::backend::{
    AcquireOutcome, AcquireRequest, ExtendOutcome, Holder, LockRecord, LookupQuery, Miss, Page,
    ReleaseOutcome,
};
use crate::error::{Error, Result};
use crate::lock::key::{KeyBudget, storage_key};
use crate::lock::time::{TIME_TOLERANCE_MS, is_live};
use crate::lock::{Fence, HolderLabel, Key, LockId, Ttl};

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

pub(super) fn acquire(
    db: &Connection,
    request: &AcquireRequest,
    now_ms: u64,
) -> Sql<AcquireOutcome> {
    let user_key = request.key.as_str();
    let key = stored_key(user_key)?;
    let fence_key = fence_key(&key)?;
    let holder = db
        .prepare_cached(include_str!("sql/holder.sql"))?
        .query_row([&key], |row| Ok((time(row, 0)?, time(row, 1)?, label(row))))
        .optional()?;
    if let Some((mut expires_at_ms, acquired_at_ms, label)) = holder
        && live(expires_at_ms, now_ms)
    {
        if acquired_at_ms > now_ms.saturating_add(TIME_TOLERANCE_MS) {
            expires_at_ms = db
                .prepare_cached(include_str!("sql/rebase.sql"))?
                .query_row(params![key, stored(now_ms)], |row| time(row, 0))?;
        }
        let free_at_ms = expires_at_ms.saturating_add(TIME_TOLERANCE_MS);
        return Ok(AcquireOutcome::Locked(Some(Holder {
            free_in: Duration::from_millis(free_at_ms.saturating_sub(now_ms)),
            expires_at_ms,
            is_shared: false,
            label,
        })));
    }
    let last = db
        .prepare_cached(include_str!("sql/last_fence.sql"))?
        .query_row([&fence_key], |row| row.get::<_, i64>(0))
        .optional()?
        .unwrap_or(0);
    let fence = Fence::after(u64::try_from(last).unwrap_or(u64::MAX))?;
    db.prepare_cached(include_str!("sql/count_fence.sql"))?
        .execute(params![fence_key, stored(fence.value()), user_key])?;
    let expires_at_ms = now_ms.saturating_add(request.ttl.ms());
    let fence_text = fence.to_string();
    let columns = params![
        key,
        request.lock_id.as_str(),
        stored(expires_at_ms),
        stored(now_ms),
        fence_text,
        user_key
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
    Ok(AcquireOutcome::Acquired {
        fence,
        expires_at_ms,
        share: None,
    })
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
    Ok(match remove(db, lock_id)? {
        None => ReleaseOutcome::Missed(Miss::NotFound),
        Some(expires_at_ms) if live(expires_at_ms, now_ms) => ReleaseOutcome::Released,
        Some(_) => ReleaseOutcome::Missed(Miss::Expired),
    })
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
    let miss = match remove(db, lock_id)? {
        None => Miss::NotFound,
        Some(_) => Miss::Expired,
    };
    Ok(ExtendOutcome::Missed(miss))
}

pub(super) fn is_locked(db: &Connection, key: &Key, now_ms: u64) -> Sql<bool> {
    let key = stored_key(key.as_str())?;
    let expires_at_ms = db
        .prepare_cached(include_str!("sql/holder.sql"))?
        .query_row([key], |row| time(row, 0))
        .optional()?;
    Ok(expires_at_ms.is_some_and(|at_ms| live(at_ms, now_ms)))
}

pub(super) fn lookup(db: &Connection, query: &LookupQuery, now_ms: u64) -> Sql<Option<LockRecord>> {
    let (sql, value) = match query {
        LookupQuery::Key(key) => (include_str!("sql/find_key.sql"), stored_key(key.as_str())?),
        LookupQuery::LockId(lock_id) => {
            (include_str!("sql/find_id.sql"), lock_id.as_str().to_owned())
        }
    };
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([value])?;
    let found = rows.next()?.map(record).transpose()?;
    Ok(found.filter(|lock| live(lock.expires_at_ms, now_ms)))
}

/// Returns the lockId that holds the key. None if the key is free.
pub(super) fn holder(db: &Connection, key: &str, now_ms: u64) -> rusqlite::Result<Option<String>> {
    let found = db
        .prepare_cached(include_str!("sql/find_key.sql"))?
        .query_row([key], |row| Ok((row.get(1)?, time(row, 2)?)))
        .optional()?;
    Ok(found.and_then(|(lock_id, expires_at_ms)| live(expires_at_ms, now_ms).then_some(lock_id)))
}

/// Reads a page of `limit` records, live or not, so that it is a short read however many have expired.
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
        let lock = record(row)?;
        if live(lock.expires_at_ms, now_ms) {
            page.locks.push(lock);
        }
        seen += 1;
        if seen == limit {
            page.next = Some(row.get(5)?);
        }
    }
    Ok(page)
}

pub(super) fn force_release(db: &Connection, key: &Key, now_ms: u64) -> Sql<bool> {
    let key = stored_key(key.as_str())?;
    let expires_at_ms = db
        .prepare_cached(include_str!("sql/remove_key.sql"))?
        .query_row([key], |row| time(row, 0))
        .optional()?;
    Ok(expires_at_ms.is_some_and(|at_ms| live(at_ms, now_ms)))
}

fn remove(db: &Connection, lock_id: LockId) -> rusqlite::Result<Option<u64>> {
    db.prepare_cached(include_str!("sql/remove.sql"))?
        .query_row([lock_id.as_str()], |row| time(row, 0))
        .optional()
}

fn record(row: &Row<'_>) -> Sql<LockRecord> {
    let lock_id: String = row.get(1)?;
    let fence: String = row.get(4)?;
    let (Ok(lock_id), Ok(fence)) = (LockId::parse(&lock_id), Fence::parse(&fence)) else {
        return Err(Error::internal(
            "A stored lock is malformed: another program has changed the lock file. Force the release of the lock, or delete the file while nothing uses it",
        )
        .into());
    };
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

/// Reads the label from a row with all columns. None if the table has no labels, or if the label belongs
/// to an earlier lock.
fn label(row: &Row<'_>) -> Option<HolderLabel> {
    let stored = row.get_ref("holder_label").ok()?.as_str_or_null().ok()??;
    let lock_id = row.get_ref("lock_id").ok()?.as_str().ok()?;
    HolderLabel::of_lock_id(stored, lock_id)
}

/// Reads a time in milliseconds. Only other programs write a negative one, which counts as long past.
fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn live(expires_at_ms: u64, now_ms: u64) -> bool {
    is_live(expires_at_ms, now_ms, TIME_TOLERANCE_MS)
}

/// Returns the time that a live lock expires after, so that SQL can compare as [`live`] does. It may be
/// negative.
fn live_after(now_ms: u64) -> i64 {
    stored(now_ms) - stored(TIME_TOLERANCE_MS)
}
