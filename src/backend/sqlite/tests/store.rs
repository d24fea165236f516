//! The operations on tables in memory. Time is an argument, so expiry can be tested without waiting.

use proptest::prelude::*;
use rusqlite::Connection;

use super::TestDir;
use crate::backend::sqlite::file::connection::SCHEMA;
use crate::backend::sqlite::store::*;
use crate::backend::{
    AcquireOutcome, AcquireRequest, ExtendOutcome, LookupQuery, Miss, ReleaseOutcome,
};
use crate::error::Error;
use crate::lock::fence::FENCE_MAX;
use crate::lock::{Access, HolderLabel, Key, LockId, Ttl};

const NOW: u64 = 1_700_000_000_000;
const NOW_I: i64 = 1_700_000_000_000;

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
        label: None,
        caller: 0,
        access: Access::Exclusive,
        mark: None,
    }
}

fn fence(db: &Connection, lock: &AcquireRequest, now_ms: u64) -> Option<u64> {
    match acquire(db, lock, now_ms).unwrap() {
        AcquireOutcome::Acquired { fence, .. } => Some(fence.value()),
        AcquireOutcome::Locked(_) => None,
    }
}

/// Returns the time until the lock is free, as a refused attempt reports it.
fn free_in(db: &Connection, key: &str, now_ms: u64) -> Option<u64> {
    match acquire(db, &request(key, 1), now_ms).unwrap() {
        AcquireOutcome::Locked(holder) => Some(holder?.free_in.as_millis() as u64),
        AcquireOutcome::Acquired { .. } => None,
    }
}

fn refusal<T>(outcome: Sql<T>) -> Error {
    match outcome {
        Err(StoreError::Ours(error)) => error,
        _ => panic!("not refused"),
    }
}

fn count(db: &Connection, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    db.query_row(&sql, [], |row| row.get(0)).unwrap()
}

fn columns(db: &Connection) -> Vec<String> {
    let sql = "SELECT name FROM pragma_table_info('syncguard_locks')";
    let mut select = db.prepare(sql).unwrap();
    let names = select.query_map([], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}

fn labelled(key: &str, ms: u32, label: &str) -> AcquireRequest {
    AcquireRequest {
        label: Some(HolderLabel::new(label).unwrap()),
        ..request(key, ms)
    }
}

/// Returns the label that a refused attempt reports. Checks that lookups and lists report the same.
fn label_of(db: &Connection, lock: &AcquireRequest, now_ms: u64) -> Option<String> {
    let refused = acquire(db, &request(lock.key.as_str(), 1), now_ms);
    let AcquireOutcome::Locked(Some(holder)) = refused.unwrap() else {
        panic!("not locked")
    };
    let listed = list(db, None, 100, now_ms).unwrap().locks;
    let found = [
        LookupQuery::Key(lock.key.clone()),
        LookupQuery::LockId(lock.lock_id),
    ]
    .map(|query| lookup(db, &query, now_ms).unwrap().unwrap());
    for record in listed.iter().chain(&found) {
        if record.key == lock.key.as_str() {
            assert_eq!(record.label, holder.label);
        }
    }
    holder.label.map(|label| label.as_str().to_owned())
}

#[test]
fn the_first_label_adds_a_column() {
    let db = db();
    let before = columns(&db);
    let plain = request("plain", 500);
    fence(&db, &plain, NOW);
    assert_eq!(label_of(&db, &plain, NOW), None);
    assert_eq!(columns(&db), before);

    let named = labelled("named", 500, "web-1:42");
    assert_eq!(fence(&db, &named, NOW), Some(1));
    assert_eq!(columns(&db).last().unwrap(), "holder_label");
    assert_eq!(columns(&db).len(), before.len() + 1);
    assert_eq!(label_of(&db, &named, NOW).as_deref(), Some("web-1:42"));
    assert_eq!(label_of(&db, &plain, NOW), None);
    extend(&db, named.lock_id, ttl(9000), NOW).unwrap();
    assert_eq!(label_of(&db, &named, NOW).as_deref(), Some("web-1:42"));
    // The clock was set back, so the lock gets its full TTL again.
    let early = NOW - 100_000;
    assert_eq!(label_of(&db, &named, early).as_deref(), Some("web-1:42"));
}

#[test]
fn an_earlier_version_works_with_and_without_the_column_of_labels() {
    let dir = TestDir::new();
    let (old, new) = (
        Connection::open(dir.file()).unwrap(),
        Connection::open(dir.file()).unwrap(),
    );
    old.execute_batch(SCHEMA).unwrap();
    // An earlier version keeps these statements prepared.
    let mut write = old.prepare(include_str!("../sql/acquire.sql")).unwrap();
    let mut read = old
        .prepare("SELECT user_key, lock_id, expires_at_ms, acquired_at_ms, fence FROM syncguard_locks WHERE key = ?1")
        .unwrap();
    let mut acquire_old = |lock_id: LockId, now_ms: i64| {
        let row = rusqlite::params![
            "k",
            lock_id.as_str(),
            now_ms + 500,
            now_ms,
            "000000000000009",
            "k"
        ];
        write.execute(row).unwrap();
        let found: String = read.query_row(["k"], |row| row.get(1)).unwrap();
        assert_eq!(found, lock_id.as_str());
    };
    acquire_old(LockId::generate(), NOW_I);
    let named = labelled("k", 500, "web-1:42");
    assert!(fence(&new, &named, NOW + 5000).is_some());
    assert_eq!(
        label_of(&new, &named, NOW + 5000).as_deref(),
        Some("web-1:42")
    );

    // The earlier version replaces the lock and leaves the label as it is.
    let taken = AcquireRequest {
        lock_id: LockId::generate(),
        ..named.clone()
    };
    acquire_old(taken.lock_id, NOW_I + 10_000);
    assert_eq!(label_of(&new, &taken, NOW + 10_000), None);
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
        NOW_I + 500,
        NOW_I,
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
fn an_expired_lock_is_reported_as_expired_once() {
    let db = db();
    let lock = request("k", 100);
    fence(&db, &lock, NOW);
    assert_eq!(fence(&db, &request("k", 100), NOW + 1099), None);
    assert_eq!(
        extend(&db, lock.lock_id, ttl(1), NOW + 1100).unwrap(),
        ExtendOutcome::Missed(Miss::Expired)
    );
    assert_eq!(
        release(&db, lock.lock_id, NOW + 1100).unwrap(),
        ReleaseOutcome::Missed(Miss::NotFound)
    );
    let late = request("k", 100);
    assert_eq!(fence(&db, &late, NOW + 1100), Some(2));
    assert_eq!(
        release(&db, late.lock_id, NOW + 5000).unwrap(),
        ReleaseOutcome::Missed(Miss::Expired)
    );
}

#[test]
fn a_refused_attempt_reports_when_the_lock_ends() {
    let db = db();
    let lock = request("k", 100);
    fence(&db, &lock, NOW);
    assert_eq!(free_in(&db, "k", NOW), Some(1100));
    assert_eq!(free_in(&db, "k", NOW + 600), Some(500));
    extend(&db, lock.lock_id, ttl(200), NOW + 600).unwrap();
    assert_eq!(free_in(&db, "k", NOW + 600), Some(1200));
    assert_eq!(free_in(&db, "k", NOW + 1800), None);
}

#[test]
fn lists_live_locks_in_pages() {
    let db = db();
    for n in 0..100 {
        fence(&db, &request(&format!("k{n:02}"), 100 + n), NOW);
    }
    let mut keys = Vec::new();
    let mut after = None;
    let mut pages = 0;
    // The first half has expired.
    loop {
        let page = list(&db, after.as_deref(), 30, NOW + 1150).unwrap();
        keys.extend(page.locks.into_iter().map(|lock| lock.key));
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(keys.into_iter().eq((51..100).map(|n| format!("k{n}"))));
    assert_eq!(pages, 4);
    assert_eq!(list(&db, None, 0, NOW).unwrap().locks.len(), 1);
}

#[test]
fn a_forced_release_keeps_the_fence_counter() {
    let db = db();
    let lock = request("k", 100);
    assert!(!force_release(&db, &lock.key, NOW).unwrap());
    fence(&db, &lock, NOW);
    assert!(force_release(&db, &lock.key, NOW + 1099).unwrap());
    assert_eq!(
        extend(&db, lock.lock_id, ttl(1), NOW + 1099).unwrap(),
        ExtendOutcome::Missed(Miss::NotFound)
    );
    assert_eq!(fence(&db, &request("k", 100), NOW + 1099), Some(2));
    assert!(!force_release(&db, &lock.key, NOW + 2199).unwrap());
    assert_eq!(count(&db, "syncguard_locks"), 0);
}

#[test]
fn an_exhausted_counter_stores_nothing() {
    let db = db();
    db.execute(
        "INSERT INTO syncguard_fence_counters VALUES ('fence:k', ?1, 'k')",
        [i64::try_from(FENCE_MAX - 1).unwrap()],
    )
    .unwrap();
    let last = request("k", 100);
    assert_eq!(fence(&db, &last, NOW), Some(FENCE_MAX));
    release(&db, last.lock_id, NOW).unwrap();
    let error = refusal(acquire(&db, &request("k", 100), NOW));
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
    let error = refusal(lookup(&db, &LookupQuery::Key(lock.key), NOW));
    assert!(error.message.contains("malformed"));
}

/// However far the clock goes back, a lock that nobody extends ends one TTL after the next attempt to
/// acquire it, and not earlier.
#[test]
fn a_clock_set_back_keeps_no_lock_forever() {
    let db = db();
    fence(&db, &request("k", 5000), NOW);
    let back = NOW - 1_000_000;
    assert_eq!(free_in(&db, "k", back), Some(6000));
    assert_eq!(free_in(&db, "k", back + 5999), Some(1));
    assert_eq!(fence(&db, &request("k", 1), back + 6000), Some(2));
}

#[test]
fn a_lock_extended_after_the_clock_was_set_back_keeps_its_ttl() {
    let db = db();
    let lock = request("k", 5000);
    fence(&db, &lock, NOW);
    let back = NOW - 1_000_000;
    extend(&db, lock.lock_id, ttl(5000), back).unwrap();
    assert_eq!(fence(&db, &request("k", 1), back), None);
    assert_eq!(fence(&db, &request("k", 1), back + 5999), None);
    // The clock is set back again: the lock gets the length that its record shows.
    assert_eq!(fence(&db, &request("k", 1), back - 50_000), None);
    assert_eq!(fence(&db, &request("k", 1), back - 50_000 + 5999), None);
    assert_eq!(fence(&db, &request("k", 1), back - 50_000 + 6000), Some(2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Compares the operations with a model that lists each holder and its expiry.
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
            prop_assert_eq!(is_locked(&db, &Key::new("k").unwrap(), now).unwrap(), live.len() == 1);
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
                    let released = release(&db, id, now).unwrap() == ReleaseOutcome::Released;
                    prop_assert_eq!(released, live.contains(&id));
                    ids.retain(|(other, _)| *other != id);
                }
                (_, Some((id, _))) => {
                    let extended = matches!(
                        extend(&db, id, ttl(500), now).unwrap(),
                        ExtendOutcome::Extended { .. }
                    );
                    prop_assert_eq!(extended, live.contains(&id));
                    for entry in ids.iter_mut().filter(|(other, _)| extended && *other == id) {
                        entry.1 = now + 1500;
                    }
                }
                _ => {}
            }
            let found = lookup(&db, &LookupQuery::Key(Key::new("k").unwrap()), now).unwrap();
            let held = ids.iter().find(|(_, until)| *until > now);
            prop_assert_eq!(found.map(|lock| lock.lock_id), held.map(|(id, _)| *id));
        }
    }
}
