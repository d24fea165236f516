//! The operations as SQL, inside the transaction of whoever calls them.
//!
//! The outer result is SQLite's: on an error the transaction must be rolled back. The inner one is
//! the operation's answer; where that is an error, nothing was written.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::backend::{
    AcquireOutcome, AcquireRequest, ExtendOutcome, LockRecord, LookupQuery, Miss, ReleaseOutcome,
};
use crate::error::{Error, Result};
use crate::lock::fence::{FENCE_MAX, overflow};
use crate::lock::key::{KeyBudget, storage_key};
use crate::lock::time::{TIME_TOLERANCE_MS, is_live};
use crate::lock::{Fence, Key, LockId, Ttl};

pub(super) type Sql<T> = rusqlite::Result<Result<T>>;

pub(super) fn acquire(
    db: &Connection,
    request: &AcquireRequest,
    now_ms: u64,
) -> Sql<AcquireOutcome> {
    let user_key = request.key.as_str();
    let keys = storage_key("", user_key, KeyBudget::POSTGRES).and_then(|key| {
        Ok((
            storage_key("", &format!("fence:{key}"), KeyBudget::POSTGRES)?,
            key,
        ))
    });
    let (fence_key, key) = match keys {
        Ok(keys) => keys,
        Err(error) => return Ok(Err(error)),
    };
    let holder = db
        .prepare_cached(include_str!("sql/holder.sql"))?
        .query_row([&key], |row| Ok((time(row, 0)?, time(row, 1)?)))
        .optional()?;
    if let Some((expires_at_ms, acquired_at_ms)) = holder
        && is_live(expires_at_ms, now_ms, TIME_TOLERANCE_MS)
    {
        if acquired_at_ms > now_ms.saturating_add(TIME_TOLERANCE_MS) {
            db.prepare_cached(include_str!("sql/rebase.sql"))?
                .execute(params![key, stored(now_ms)])?;
        }
        return Ok(Ok(AcquireOutcome::Locked));
    }
    let counter: Option<i64> = db
        .prepare_cached(include_str!("sql/next_fence.sql"))?
        .query_row(params![fence_key, user_key, stored(FENCE_MAX)], |row| {
            row.get(0)
        })
        .optional()?;
    let Some(counter) = counter else {
        return Ok(Err(overflow()));
    };
    let fence = match Fence::from_stored(u64::try_from(counter).unwrap_or(u64::MAX)) {
        Ok(fence) => fence,
        Err(error) => return Ok(Err(error)),
    };
    let expires_at_ms = now_ms.saturating_add(request.ttl.ms());
    db.prepare_cached(include_str!("sql/acquire.sql"))?
        .execute(params![
            key,
            request.lock_id.as_str(),
            stored(expires_at_ms),
            stored(now_ms),
            fence.to_string(),
            user_key
        ])?;
    Ok(Ok(AcquireOutcome::Acquired {
        fence,
        expires_at_ms,
    }))
}

pub(super) fn release(db: &Connection, lock_id: LockId, now_ms: u64) -> Sql<ReleaseOutcome> {
    Ok(Ok(match remove(db, lock_id)? {
        None => ReleaseOutcome::Missed(Miss::NotFound),
        Some(expires_at_ms) if is_live(expires_at_ms, now_ms, TIME_TOLERANCE_MS) => {
            ReleaseOutcome::Released
        }
        Some(_) => ReleaseOutcome::Missed(Miss::Expired),
    }))
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
        return Ok(Ok(ExtendOutcome::Extended { expires_at_ms }));
    }
    // What is still there did not match because it has expired.
    let miss = match remove(db, lock_id)? {
        None => Miss::NotFound,
        Some(_) => Miss::Expired,
    };
    Ok(Ok(ExtendOutcome::Missed(miss)))
}

pub(super) fn is_locked(db: &Connection, key: &Key, now_ms: u64) -> Sql<bool> {
    let key = match storage_key("", key.as_str(), KeyBudget::POSTGRES) {
        Ok(key) => key,
        Err(error) => return Ok(Err(error)),
    };
    let expires_at_ms = db
        .prepare_cached(include_str!("sql/holder.sql"))?
        .query_row([key], |row| time(row, 0))
        .optional()?;
    Ok(Ok(expires_at_ms.is_some_and(|expires_at_ms| {
        is_live(expires_at_ms, now_ms, TIME_TOLERANCE_MS)
    })))
}

pub(super) fn lookup(db: &Connection, query: &LookupQuery, now_ms: u64) -> Sql<Option<LockRecord>> {
    let found = match query {
        LookupQuery::Key(key) => match storage_key("", key.as_str(), KeyBudget::POSTGRES) {
            Ok(key) => db
                .prepare_cached(include_str!("sql/find_key.sql"))?
                .query_row([key], record),
            Err(error) => return Ok(Err(error)),
        },
        LookupQuery::LockId(lock_id) => db
            .prepare_cached(include_str!("sql/find_id.sql"))?
            .query_row([lock_id.as_str()], record),
    };
    Ok(found
        .optional()?
        .transpose()
        .map(|found| found.filter(|lock| is_live(lock.expires_at_ms, now_ms, TIME_TOLERANCE_MS))))
}

fn remove(db: &Connection, lock_id: LockId) -> rusqlite::Result<Option<u64>> {
    db.prepare_cached(include_str!("sql/remove.sql"))?
        .query_row([lock_id.as_str()], |row| time(row, 0))
        .optional()
}

fn record(row: &Row<'_>) -> rusqlite::Result<Result<LockRecord>> {
    let lock_id: String = row.get(1)?;
    let fence: String = row.get(4)?;
    let (Ok(lock_id), Ok(fence)) = (LockId::parse(&lock_id), Fence::parse(&fence)) else {
        return Ok(Err(Error::internal(
            "The stored lock is malformed: it was changed by something else",
        )));
    };
    Ok(Ok(LockRecord {
        key: row.get(0)?,
        lock_id,
        expires_at_ms: time(row, 2)?,
        acquired_at_ms: time(row, 3)?,
        fence,
    }))
}

/// Times are whole milliseconds; a negative one can only come from outside and counts as long past.
fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// `expires_at_ms > live_after(now)` is [`is_live`]; unlike in Rust, it may be below zero.
fn live_after(now_ms: u64) -> i64 {
    stored(now_ms) - stored(TIME_TOLERANCE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sqlite::connection::SCHEMA;
    use proptest::prelude::*;

    const NOW: u64 = 1_700_000_000_000;

    fn db() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(SCHEMA).unwrap();
        db
    }

    fn ttl(ms: u32) -> Ttl {
        Ttl::from_number(f64::from(ms)).unwrap()
    }

    fn request(key: &str, ms: u32) -> AcquireRequest {
        AcquireRequest {
            key: Key::new(key).unwrap(),
            lock_id: LockId::generate(),
            ttl: ttl(ms),
        }
    }

    fn fence(db: &Connection, lock: &AcquireRequest, now_ms: u64) -> Option<u64> {
        match acquire(db, lock, now_ms).unwrap().unwrap() {
            AcquireOutcome::Acquired { fence, .. } => Some(fence.value()),
            AcquireOutcome::Locked => None,
        }
    }

    fn count(db: &Connection, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        db.query_row(&sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn stores_the_documented_columns() {
        let db = db();
        let lock = request("a key", 500);
        fence(&db, &lock, NOW);
        let row: (String, String, i64, i64, String, String) = db
            .query_row(
                "SELECT key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key FROM syncguard_locks",
                [],
                |row| row.try_into(),
            )
            .unwrap();
        let expected = (
            "a key".to_owned(),
            lock.lock_id.as_str().to_owned(),
            stored(NOW + 500),
            stored(NOW),
            "000000000000001".to_owned(),
            "a key".to_owned(),
        );
        assert_eq!(row, expected);
        let counter: (String, i64, String) = db
            .query_row(
                "SELECT fence_key, fence, key_debug FROM syncguard_fence_counters",
                [],
                |row| row.try_into(),
            )
            .unwrap();
        assert_eq!(counter, ("fence:a key".to_owned(), 1, "a key".to_owned()));
    }

    #[test]
    fn a_key_that_looks_like_a_counter_is_another_key() {
        let db = db();
        assert_eq!(fence(&db, &request("x", 500), NOW), Some(1));
        assert_eq!(fence(&db, &request("fence:x", 500), NOW), Some(1));
        assert_eq!(fence(&db, &request("x", 500), NOW + 5000), Some(2));
    }

    #[test]
    fn expiry_tells_expired_from_not_found() {
        let db = db();
        let lock = request("k", 100);
        fence(&db, &lock, NOW);
        assert_eq!(fence(&db, &request("k", 100), NOW + 1099), None);
        assert_eq!(
            extend(&db, lock.lock_id, ttl(1), NOW + 1100)
                .unwrap()
                .unwrap(),
            ExtendOutcome::Missed(Miss::Expired)
        );
        assert_eq!(
            release(&db, lock.lock_id, NOW + 1100).unwrap().unwrap(),
            ReleaseOutcome::Missed(Miss::NotFound)
        );
        let late = request("k", 100);
        assert_eq!(fence(&db, &late, NOW + 1100), Some(2));
        assert_eq!(
            release(&db, late.lock_id, NOW + 5000).unwrap().unwrap(),
            ReleaseOutcome::Missed(Miss::Expired)
        );
    }

    #[test]
    fn an_exhausted_counter_stores_nothing() {
        let db = db();
        db.execute(
            "INSERT INTO syncguard_fence_counters VALUES ('fence:k', ?1, 'k')",
            [stored(FENCE_MAX - 1)],
        )
        .unwrap();
        let last = request("k", 100);
        assert_eq!(fence(&db, &last, NOW), Some(FENCE_MAX));
        release(&db, last.lock_id, NOW).unwrap().unwrap();
        let error = acquire(&db, &request("k", 100), NOW).unwrap().unwrap_err();
        assert!(error.message.starts_with("Fence counter overflow"));
        assert_eq!(count(&db, "syncguard_locks"), 0);
    }

    #[test]
    fn a_malformed_record_is_an_error_and_not_a_lock() {
        let db = db();
        let lock = request("k", 100);
        fence(&db, &lock, NOW);
        db.execute("UPDATE syncguard_locks SET fence = 'seven'", [])
            .unwrap();
        assert!(
            lookup(&db, &LookupQuery::Key(lock.key), NOW)
                .unwrap()
                .is_err()
        );
    }

    /// However far the clock goes back, a lock that nobody extends is over one TTL after it was
    /// next asked for, and not before its own time.
    #[test]
    fn a_clock_set_back_keeps_no_lock_for_ever() {
        let db = db();
        fence(&db, &request("k", 5000), NOW);
        let back = NOW - 1_000_000;
        assert_eq!(fence(&db, &request("k", 1), back), None);
        assert_eq!(fence(&db, &request("k", 1), back + 5999), None);
        assert_eq!(fence(&db, &request("k", 1), back + 6000), Some(2));
    }

    #[test]
    fn a_lock_extended_after_the_clock_was_set_back_keeps_its_ttl() {
        let db = db();
        let lock = request("k", 5000);
        fence(&db, &lock, NOW);
        let back = NOW - 1_000_000;
        extend(&db, lock.lock_id, ttl(5000), back).unwrap().unwrap();
        assert_eq!(fence(&db, &request("k", 1), back), None);
        assert_eq!(fence(&db, &request("k", 1), back + 5999), None);
        // Back once more: what is kept is the length that the record shows.
        assert_eq!(fence(&db, &request("k", 1), back - 50_000), None);
        assert_eq!(fence(&db, &request("k", 1), back - 50_000 + 5999), None);
        assert_eq!(fence(&db, &request("k", 1), back - 50_000 + 6000), Some(2));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Against a model that is just "who held what until when".
        #[test]
        fn never_two_live_holders(steps in prop::collection::vec((0u8..4, 0usize..4, 0u64..700), 1..100)) {
            let db = db();
            let mut now = NOW;
            let mut last_fence = 0;
            let mut ids: Vec<(LockId, u64)> = Vec::new();
            for (what, which, wait) in steps {
                now += wait;
                let target = ids.get(ids.len().saturating_sub(1 + which)).copied();
                let live: Vec<LockId> = ids.iter().filter(|(_, until)| *until > now).map(|(id, _)| *id).collect();
                prop_assert!(live.len() <= 1);
                prop_assert_eq!(is_locked(&db, &Key::new("k").unwrap(), now).unwrap().unwrap(), live.len() == 1);
                match (what, target) {
                    (0 | 1, _) => {
                        let lock = request("k", 500);
                        let granted = fence(&db, &lock, now);
                        prop_assert_eq!(granted.is_some(), live.is_empty());
                        if let Some(granted) = granted {
                            prop_assert_eq!(granted, last_fence + 1);
                            last_fence = granted;
                            ids.push((lock.lock_id, now + 1500));
                        }
                    }
                    (2, Some((id, _))) => {
                        let released = release(&db, id, now).unwrap().unwrap() == ReleaseOutcome::Released;
                        prop_assert_eq!(released, live.contains(&id));
                        ids.retain(|(other, _)| *other != id);
                    }
                    (_, Some((id, _))) => {
                        let extended = matches!(
                            extend(&db, id, ttl(500), now).unwrap().unwrap(),
                            ExtendOutcome::Extended { .. }
                        );
                        prop_assert_eq!(extended, live.contains(&id));
                        for entry in ids.iter_mut().filter(|(other, _)| extended && *other == id) {
                            entry.1 = now + 1500;
                        }
                    }
                    _ => {}
                }
                let found = lookup(&db, &LookupQuery::Key(Key::new("k").unwrap()), now).unwrap().unwrap();
                let held = ids.iter().find(|(_, until)| *until > now);
                prop_assert_eq!(found.map(|lock| lock.lock_id), held.map(|(id, _)| *id));
            }
        }
    }
}
