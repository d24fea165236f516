//! Shared records on tables in memory. Time is an argument, so expiry can be tested without waiting.

use proptest::prelude::*;
use rusqlite::Connection;

use crate::backend::sqlite::file::connection::SCHEMA;
use crate::backend::sqlite::occupancy::Occupancy;
use crate::backend::sqlite::store::*;
use crate::backend::sqlite::sweep::Sweeper;
use crate::backend::{
    AcquireOutcome, AcquireRequest, ExtendOutcome, Holder, LookupQuery, Miss, ReleaseOutcome,
};
use crate::lock::share::{MARK_LEASE_MS, UNLIMITED};
use crate::lock::{Access, HolderLabel, Key, LockId, Share, Ttl};

const NOW: u64 = 1_700_000_000_000;
const NOW_I: i64 = 1_700_000_000_000;
const TOLERANCE: u64 = 1000;
const READER: Access = Access::Shared { limit: UNLIMITED };

fn db() -> Connection {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(SCHEMA).unwrap();
    db
}

fn ttl(ms: u32) -> Ttl {
    Ttl::from_number(f64::from(ms)).unwrap()
}

fn key() -> Key {
    Key::new("k").unwrap()
}

fn attempt(access: Access, ms: u32) -> AcquireRequest {
    AcquireRequest {
        key: key(),
        lock_id: LockId::generate(),
        ttl: ttl(ms),
        label: None,
        caller: 0,
        access,
        mark: None,
    }
}

fn share(db: &Connection, request: &AcquireRequest, now_ms: u64) -> Option<Share> {
    match acquire(db, request, now_ms).unwrap() {
        AcquireOutcome::Acquired { share, .. } => Some(share.unwrap()),
        AcquireOutcome::Locked(_) => None,
    }
}

/// Acquires a share, and returns its lockId.
fn shared(db: &Connection, access: Access, ms: u32, now_ms: u64) -> LockId {
    let request = attempt(access, ms);
    assert!(share(db, &request, now_ms).is_some());
    request.lock_id
}

fn refused(db: &Connection, request: &AcquireRequest, now_ms: u64) -> Holder {
    match acquire(db, request, now_ms).unwrap() {
        AcquireOutcome::Locked(holder) => holder.unwrap(),
        AcquireOutcome::Acquired { .. } => panic!("acquired"),
    }
}

/// The attempt of a writer that waits, and leaves this mark.
fn writer(mark: LockId) -> AcquireRequest {
    AcquireRequest {
        mark: Some(mark),
        ..attempt(Access::Exclusive, 500)
    }
}

fn exclusive(db: &Connection, now_ms: u64) -> bool {
    let outcome = acquire(db, &attempt(Access::Exclusive, 500), now_ms).unwrap();
    matches!(outcome, AcquireOutcome::Acquired { .. })
}

fn released(db: &Connection, lock_id: LockId, now_ms: u64) -> bool {
    release(db, lock_id, now_ms).unwrap() == ReleaseOutcome::Released
}

fn count(db: &Connection, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    db.query_row(&sql, [], |row| row.get(0)).unwrap()
}

fn number(db: &Connection, column: &str) -> i64 {
    let sql = format!("SELECT {column} FROM syncguard_locks");
    db.query_row(&sql, [], |row| row.get(0)).unwrap()
}

fn is_empty(db: &Connection) -> bool {
    count(db, "syncguard_locks") == 0 && count(db, "syncguard_holders") == 0
}

#[test]
fn stores_the_documented_rows() {
    let db = db();
    let long = AcquireRequest {
        label: Some(HolderLabel::new("web-1:42").unwrap()),
        ..attempt(READER, 900)
    };
    share(&db, &long, NOW).unwrap();
    let short = shared(&db, READER, 500, NOW + 1);
    let record: (String, String, i64, i64, String, String) = db
        .query_row(
            "SELECT key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key FROM syncguard_locks",
            [],
            |row| row.try_into(),
        )
        .unwrap();
    let id = record.1.clone();
    assert!(LockId::parse(&id).is_ok());
    assert!(
        ![long.lock_id, short]
            .map(|id| id.as_str().to_owned())
            .contains(&id)
    );
    let fence = |n| format!("{n:015}");
    let expected = (
        "k".to_owned(),
        id.clone(),
        NOW_I + 900,
        NOW_I + 1,
        fence(2),
        "k".to_owned(),
    );
    assert_eq!(record, expected);

    type Row = (
        String,
        String,
        Option<i64>,
        i64,
        i64,
        Option<String>,
        Option<String>,
    );
    let rows: Vec<Row> = db
        .prepare("SELECT * FROM syncguard_holders ORDER BY slot")
        .unwrap()
        .query_map([], |row| row.try_into())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let row = |lock_id: LockId, slot, until, from, label: Option<&str>| -> Row {
        let label = label.map(str::to_owned);
        (
            id.clone(),
            lock_id.as_str().to_owned(),
            Some(slot),
            until,
            from,
            Some(fence(slot + 1)),
            label,
        )
    };
    assert_eq!(
        rows,
        [
            row(long.lock_id, 0, NOW_I + 900, NOW_I, Some("web-1:42")),
            row(short, 1, NOW_I + 501, NOW_I + 1, None)
        ]
    );
    // The record expires with its last holder.
    assert!(released(&db, long.lock_id, NOW + 2));
    assert_eq!(number(&db, "expires_at_ms"), NOW_I + 501);
    extend(&db, short, ttl(9000), NOW + 3).unwrap();
    assert_eq!(number(&db, "expires_at_ms"), NOW_I + 9003);
    extend(&db, short, ttl(10), NOW + 4).unwrap();
    assert_eq!(number(&db, "expires_at_ms"), NOW_I + 14);
    assert!(released(&db, short, NOW + 5));
    assert!(is_empty(&db));
}

#[test]
fn a_refusal_reports_when_the_attempt_can_succeed() {
    let db = db();
    let semaphore = |limit| attempt(Access::Shared { limit }, 100);
    for ms in [300, 100, 200] {
        shared(&db, READER, ms, NOW);
    }
    let reported = |request: &AcquireRequest| {
        let holder = refused(&db, request, NOW);
        assert!(holder.is_shared);
        (
            holder.free_in.as_millis() as u64 - TOLERANCE,
            holder.expires_at_ms - NOW,
        )
    };
    assert_eq!(reported(&semaphore(3)), (100, 100));
    assert_eq!(reported(&semaphore(2)), (200, 200));
    assert_eq!(reported(&semaphore(1)), (300, 300));
    assert_eq!(reported(&attempt(Access::Exclusive, 1)), (300, 300));
    // A mark ends without tolerance.
    refused(&db, &writer(LockId::generate()), NOW);
    let holder = refused(&db, &semaphore(1000), NOW + 500);
    assert!(holder.is_shared);
    assert_eq!(holder.free_in.as_millis() as u64, MARK_LEASE_MS - 500);
    assert_eq!(holder.expires_at_ms, NOW + MARK_LEASE_MS);
}

#[test]
fn an_expired_holder_finds_nothing_and_disturbs_nobody() {
    let db = db();
    let short = shared(&db, READER, 100, NOW);
    let long = shared(&db, READER, 60_000, NOW);
    let over = NOW + 100 + TOLERANCE;
    assert!(
        extend(&db, short, ttl(100), over - 1).unwrap() != ExtendOutcome::Missed(Miss::Expired)
    );
    let over = over - 1 + 100 + TOLERANCE;
    assert_eq!(
        extend(&db, short, ttl(60_000), over).unwrap(),
        ExtendOutcome::Missed(Miss::Expired)
    );
    assert_eq!(
        release(&db, short, over).unwrap(),
        ReleaseOutcome::Missed(Miss::NotFound)
    );
    let found = lookup(&db, &LookupQuery::Key(key()), over)
        .unwrap()
        .unwrap();
    assert!(found.lock_id == long);
    assert_eq!(found.expires_at_ms, NOW + 60_000);
    assert_eq!(
        found.share,
        Some(Share {
            slot: 1,
            holders: 1
        })
    );
    // The next holder gets the slot.
    assert_eq!(
        share(&db, &attempt(READER, 100), over),
        Some(Share {
            slot: 0,
            holders: 2
        })
    );
}

#[test]
fn expired_holders_are_removed_with_the_next_grant() {
    let db = db();
    shared(&db, READER, 60_000, NOW);
    for n in 0..10 {
        let request = attempt(Access::Shared { limit: 2 }, 1);
        assert_eq!(share(&db, &request, NOW + n * 2000).unwrap().slot, 1);
    }
    assert_eq!(count(&db, "syncguard_holders"), 2);
    // A new record follows one of which all holders have expired.
    shared(&db, READER, 1, NOW + 100_000);
    assert_eq!(count(&db, "syncguard_holders"), 1);
    // An exclusive lock, too, leaves nothing of it.
    assert!(exclusive(&db, NOW + 200_000));
    assert_eq!(count(&db, "syncguard_holders"), 0);
}

#[test]
fn a_mark_keeps_readers_out_and_not_writers() {
    let db = db();
    let reader = shared(&db, READER, 60_000, NOW);
    let (first, second) = (LockId::generate(), LockId::generate());
    // A single attempt leaves none.
    refused(&db, &attempt(Access::Exclusive, 1), NOW);
    let other = shared(&db, READER, 60_000, NOW);
    assert!(released(&db, other, NOW));

    refused(&db, &writer(first), NOW);
    refused(&db, &attempt(READER, 1), NOW);
    // It is renewed, and of several the last one counts.
    refused(&db, &writer(first), NOW + 1500);
    refused(&db, &writer(second), NOW + 1600);
    refused(&db, &attempt(READER, 1), NOW + 1600 + MARK_LEASE_MS - 1);
    unmark(&db, &key(), first, NOW + 1600).unwrap();
    refused(&db, &attempt(READER, 1), NOW + 1600);
    unmark(&db, &key(), second, NOW + 1600).unwrap();
    let other = shared(&db, READER, 60_000, NOW + 1600);
    assert!(released(&db, other, NOW + 1600));

    // One that nobody renews ends.
    refused(&db, &writer(first), NOW + 2000);
    let other = shared(&db, READER, 60_000, NOW + 2000 + MARK_LEASE_MS);
    for id in [reader, other] {
        assert!(released(&db, id, NOW + 5000));
    }
    assert!(is_empty(&db));
}

#[test]
fn a_record_with_only_a_mark_has_expired_for_others() {
    for writer_comes in [true, false] {
        let db = db();
        let mark = LockId::generate();
        let reader = shared(&db, READER, 60_000, NOW);
        refused(&db, &writer(mark), NOW);
        assert!(released(&db, reader, NOW));
        assert_eq!(number(&db, "expires_at_ms"), 0);
        refused(&db, &attempt(READER, 1), NOW);
        assert!(!is_locked(&db, &key(), NOW).unwrap());
        assert!(
            lookup(&db, &LookupQuery::Key(key()), NOW)
                .unwrap()
                .is_none()
        );
        assert!(list(&db, None, 10, NOW).unwrap().locks.is_empty());
        if writer_comes {
            let request = writer(mark);
            acquire(&db, &request, NOW).unwrap();
            assert_eq!(count(&db, "syncguard_holders"), 0);
            assert!(released(&db, request.lock_id, NOW));
        } else {
            unmark(&db, &key(), mark, NOW).unwrap();
        }
        assert!(is_empty(&db));
        assert_eq!(share(&db, &attempt(READER, 1), NOW).unwrap().slot, 0);
    }
}

#[test]
fn a_forced_release_ends_all_holders() {
    let db = db();
    let holders = [1, 2, 3].map(|_| shared(&db, READER, 100, NOW));
    refused(&db, &writer(LockId::generate()), NOW);
    assert!(force_release(&db, &key(), NOW).unwrap());
    assert!(is_empty(&db));
    for holder in holders {
        assert!(!released(&db, holder, NOW));
    }
    shared(&db, READER, 100, NOW);
    assert!(!force_release(&db, &key(), NOW + 100 + TOLERANCE).unwrap());
    assert!(is_empty(&db));
}

#[test]
fn a_list_has_all_holders_of_a_key_on_one_page() {
    let db = db();
    for name in ["a", "b", "c"] {
        for _ in 0..5 {
            let request = AcquireRequest {
                key: Key::new(name).unwrap(),
                ..attempt(READER, 100)
            };
            share(&db, &request, NOW).unwrap();
        }
    }
    let page = list(&db, None, 2, NOW).unwrap();
    assert_eq!(page.locks.len(), 10);
    let rest = list(&db, page.next.as_deref(), 2, NOW).unwrap();
    assert!(
        rest.locks
            .iter()
            .all(|lock| lock.key == "c" && lock.share.unwrap().holders == 5)
    );
    assert_eq!((rest.locks.len(), rest.next), (5, None));
}

#[test]
fn nobody_can_use_the_id_of_the_record_itself_to_look_it_up() {
    let db = db();
    shared(&db, READER, 100, NOW);
    let sql = "SELECT lock_id FROM syncguard_locks";
    let id: String = db.query_row(sql, [], |row| row.get(0)).unwrap();
    let query = LookupQuery::LockId(LockId::parse(&id).unwrap());
    assert!(lookup(&db, &query, NOW).unwrap().is_none());
}

/// However far the clock goes back, each holder gets its full length again, and not more.
#[test]
fn a_clock_set_back_keeps_no_share_forever() {
    let db = db();
    let (long, short) = (
        shared(&db, READER, 5000, NOW),
        shared(&db, READER, 1000, NOW),
    );
    let back = NOW - 1_000_000;
    refused(&db, &writer(LockId::generate()), NOW);
    let holder = refused(&db, &attempt(Access::Exclusive, 1), back);
    assert_eq!(holder.expires_at_ms, back + 5000);
    assert_eq!(number(&db, "expires_at_ms"), NOW_I - 1_000_000 + 5000);
    // The mark, too, is from the future.
    let other = shared(&db, READER, 1, back);
    assert!(released(&db, other, back));
    assert!(matches!(
        extend(&db, short, ttl(1000), back + 1999).unwrap(),
        ExtendOutcome::Extended { .. }
    ));
    assert!(!exclusive(&db, back + 5999));
    assert!(exclusive(&db, back + 6000));
    assert!(!released(&db, long, back + 6000));
}

/// An earlier version, which only knows the record, may have shortened its life after the clock was set
/// back. To that version the key is free, so no holder may be left.
#[test]
fn a_holder_does_not_outlive_its_record() {
    let db = db();
    let holder = shared(&db, READER, 60_000, NOW);
    db.execute(
        "UPDATE syncguard_locks SET expires_at_ms = expires_at_ms - 60000",
        [],
    )
    .unwrap();
    let over = NOW + TOLERANCE;
    let by_id = LookupQuery::LockId(holder);
    assert!(lookup(&db, &by_id, over).unwrap().is_none());
    let request = attempt(Access::Shared { limit: 1 }, 100);
    assert_eq!(
        share(&db, &request, over),
        Some(Share {
            slot: 0,
            holders: 1
        })
    );
    assert!(!released(&db, holder, over));
    assert!(released(&db, request.lock_id, over));
    assert!(is_empty(&db));
}

#[test]
fn damaged_rows_are_errors_and_never_locks_for_ever() {
    for damage in [
        "UPDATE syncguard_holders SET slot = -7",
        "UPDATE syncguard_holders SET slot = 99999999999",
        "UPDATE syncguard_holders SET fence = NULL",
        "UPDATE syncguard_holders SET fence = 'seven', lock_id = ''",
        "UPDATE syncguard_holders SET holder_label = char(7)",
        "UPDATE syncguard_holders SET acquired_at_ms = 9223372036854775807",
        "UPDATE syncguard_holders SET expires_at_ms = -9223372036854775807",
        "UPDATE syncguard_holders SET slot = NULL",
        "DELETE FROM syncguard_holders",
    ] {
        let db = db();
        let holder = shared(&db, READER, 500, NOW);
        db.execute(damage, []).unwrap();
        let _ = lookup(&db, &LookupQuery::Key(key()), NOW);
        let _ = lookup(&db, &LookupQuery::LockId(holder), NOW);
        let _ = list(&db, None, 10, NOW);
        let _ = Occupancy::of(&db, "k", NOW).unwrap();
        acquire(&db, &attempt(READER, 500), NOW).unwrap();
        extend(&db, holder, ttl(500), NOW).unwrap();
        let later = NOW + 500 + TOLERANCE;
        assert!(exclusive(&db, later), "{damage}");
        assert!(force_release(&db, &key(), later).unwrap());
        assert_eq!(count(&db, "syncguard_locks"), 0);
    }
    let db = db();
    shared(&db, READER, 500, NOW);
    db.execute("UPDATE syncguard_holders SET fence = 'seven'", [])
        .unwrap();
    let Err(StoreError::Ours(error)) = lookup(&db, &LookupQuery::Key(key()), NOW) else {
        panic!("not refused")
    };
    assert!(error.message.contains("malformed"));
}

#[test]
fn a_sweep_removes_what_has_expired_and_keeps_marks() {
    let db = db();
    let sweep = |now_ms| Sweeper::default().sweep_if_due(&db, now_ms).unwrap();
    let reader = shared(&db, READER, 500, NOW);
    shared(&db, READER, 100, NOW);
    sweep(NOW + 499 + TOLERANCE);
    assert_eq!(count(&db, "syncguard_locks"), 1);
    refused(&db, &writer(LockId::generate()), NOW + 600);
    assert!(released(&db, reader, NOW + 600));
    // Now only the other holder, which has nearly expired, and then the mark are left.
    let last = NOW + 600 + MARK_LEASE_MS - 1;
    sweep(last);
    refused(&db, &attempt(READER, 500), last);
    sweep(last + 1);
    assert!(is_empty(&db));

    // A program that does not know holders has removed one record and replaced another.
    shared(&db, READER, 500, NOW);
    db.execute("UPDATE syncguard_locks SET lock_id = 'other'", [])
        .unwrap();
    sweep(NOW);
    assert_eq!(
        (
            count(&db, "syncguard_locks"),
            count(&db, "syncguard_holders")
        ),
        (1, 0)
    );
}

#[test]
fn a_round_of_sweeps_removes_all_holders_without_a_record() {
    let db = db();
    let live = shared(&db, READER, 60_000, NOW);
    let insert = "INSERT INTO syncguard_holders VALUES (?1, ?2, 0, 0, 0, '', NULL)";
    for n in 0..2000 {
        let record = format!("gone{}", n % 3);
        db.execute(insert, [record, format!("{n}")]).unwrap();
    }
    let mut sweeper = Sweeper::default();
    for _ in 0..5 {
        sweeper.count(256);
        sweeper.sweep_if_due(&db, NOW).unwrap();
    }
    assert_eq!(count(&db, "syncguard_holders"), 1);
    assert!(released(&db, live, NOW));
}

/// What a watch sees of a key, and whether it wakes.
struct Looking<'a> {
    db: &'a Connection,
    before: Option<Occupancy>,
}

impl Looking<'_> {
    fn wakes(&mut self, now_ms: u64) -> bool {
        let now = Occupancy::of(self.db, "k", now_ms).unwrap();
        let wakes = Occupancy::may_admit_more(self.before.as_ref(), now.as_ref());
        self.before = now;
        wakes
    }
}

#[test]
fn a_watch_wakes_when_a_share_or_a_mark_has_ended() {
    let db = db();
    let mut watch = Looking {
        db: &db,
        before: None,
    };
    assert!(watch.wakes(NOW), "a free key");
    let (one, two) = (
        shared(&db, READER, 60_000, NOW),
        shared(&db, READER, 60_000, NOW),
    );
    assert!(watch.wakes(NOW), "a share may have ended before this look");
    assert!(!watch.wakes(NOW));
    extend(&db, one, ttl(70_000), NOW).unwrap();
    let three = shared(&db, READER, 100, NOW);
    assert!(!watch.wakes(NOW), "a new holder frees nothing");
    released(&db, two, NOW);
    assert!(watch.wakes(NOW));
    let brief = shared(&db, READER, 100, NOW);
    released(&db, brief, NOW);
    assert!(watch.wakes(NOW), "one that came and went");
    assert!(!watch.wakes(NOW));
    assert!(watch.wakes(NOW + 100 + TOLERANCE), "one has expired");
    assert!(!released(&db, three, NOW + 100 + TOLERANCE));
    assert!(!watch.wakes(NOW + 100 + TOLERANCE));

    let (a, b) = (LockId::generate(), LockId::generate());
    for id in [a, b, a] {
        refused(&db, &writer(id), NOW);
        assert!(
            !watch.wakes(NOW),
            "writers must not wake each other in turn"
        );
    }
    unmark(&db, &key(), b, NOW).unwrap();
    assert!(!watch.wakes(NOW));
    unmark(&db, &key(), a, NOW).unwrap();
    assert!(watch.wakes(NOW));
    assert!(!watch.wakes(NOW));
    refused(&db, &writer(b), NOW);
    unmark(&db, &key(), b, NOW).unwrap();
    assert!(watch.wakes(NOW), "a mark that came and went");

    refused(&db, &writer(a), NOW);
    released(&db, one, NOW);
    assert!(watch.wakes(NOW), "the writer's turn");
    assert!(!watch.wakes(NOW), "readers that the mark refuses wait");
    assert!(watch.wakes(NOW + MARK_LEASE_MS));
    assert!(exclusive(&db, NOW));
    assert!(!watch.wakes(NOW));
    for replaced in [false, true] {
        force_release(&db, &key(), NOW).unwrap();
        if replaced {
            assert!(exclusive(&db, NOW));
        } else {
            shared(&db, READER, 100, NOW);
        }
        assert!(watch.wakes(NOW), "the record was replaced");
        assert!(!watch.wakes(NOW));
    }
}

#[derive(Clone, Copy)]
struct Held {
    id: LockId,
    until: u64,
    slot: Option<u32>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// Compares all operations with a model that lists the holders and the mark.
    #[test]
    fn holders_and_marks_are_those_of_a_model(
        steps in prop::collection::vec((0u8..9, 0usize..5, 0u64..500), 1..120),
    ) {
        let db = db();
        let mut now = NOW;
        let mut last_fence = 0;
        let mut known: Vec<LockId> = Vec::new();
        let mut held: Vec<Held> = Vec::new();
        let mut mark: Option<(LockId, u64)> = None;
        let marks = [LockId::generate(), LockId::generate()];
        for (what, which, wait) in steps {
            now += wait;
            held.retain(|held| held.until > now);
            let is_marked = mark.is_some_and(|(_, until)| until > now);
            let target = known.get(known.len().saturating_sub(1 + which)).copied();
            match what {
                0..=5 => {
                    let limit = u32::try_from(which).unwrap().max(1);
                    let access = if what < 4 { Access::Shared { limit } } else { Access::Exclusive };
                    let request = AcquireRequest {
                        mark: (what == 5).then(|| marks[which % 2]),
                        ..attempt(access, 600)
                    };
                    let is_exclusive = held.iter().any(|held| held.slot.is_none());
                    let fits = match access {
                        Access::Exclusive => held.is_empty(),
                        Access::Shared { .. } => !is_exclusive && !is_marked && held.len() < limit as usize,
                    };
                    match acquire(&db, &request, now).unwrap() {
                        AcquireOutcome::Acquired { fence, share, .. } => {
                            prop_assert!(fits);
                            prop_assert_eq!(fence.value(), last_fence + 1);
                            last_fence = fence.value();
                            let free = (0u32..).find(|n| held.iter().all(|held| held.slot != Some(*n)));
                            let slot = share.map(|share| share.slot);
                            prop_assert_eq!(slot, access.is_shared().then_some(free.unwrap()));
                            if !access.is_shared() {
                                mark = None;
                            }
                            held.push(Held { id: request.lock_id, until: now + 600 + TOLERANCE, slot });
                            known.push(request.lock_id);
                        }
                        AcquireOutcome::Locked(holder) => {
                            prop_assert!(!fits);
                            let holder = holder.unwrap();
                            prop_assert_eq!(holder.is_shared, !is_exclusive);
                            let after = now + u64::try_from(holder.free_in.as_millis()).unwrap();
                            let fits_after = |at| held.iter().filter(|held| held.until > at).count() < match access {
                                Access::Exclusive => 1,
                                Access::Shared { .. } if is_exclusive => 1,
                                Access::Shared { limit } => limit as usize,
                            };
                            if !(is_marked && access.is_shared() && !is_exclusive) {
                                prop_assert!(fits_after(after) && !fits_after(after - 1));
                            }
                            if let Some(id) = request.mark && !is_exclusive {
                                mark = Some((id, now + MARK_LEASE_MS));
                            }
                        }
                    }
                }
                6 => {
                    unmark(&db, &key(), marks[which % 2], now).unwrap();
                    mark = mark.filter(|(id, _)| *id != marks[which % 2]);
                }
                7 => if let Some(id) = target {
                    let expected = held.iter().any(|held| held.id == id);
                    prop_assert_eq!(released(&db, id, now), expected);
                    let was_exclusive = held.iter().any(|held| held.slot.is_none());
                    held.retain(|held| held.id != id);
                    if was_exclusive && expected {
                        mark = None;
                    }
                },
                _ => if let Some(id) = target {
                    let outcome = extend(&db, id, ttl(600), now).unwrap();
                    let found = held.iter_mut().find(|held| held.id == id);
                    prop_assert_eq!(matches!(outcome, ExtendOutcome::Extended { .. }), found.is_some());
                    if let Some(held) = found {
                        held.until = now + 600 + TOLERANCE;
                    }
                },
            }
            prop_assert_eq!(is_locked(&db, &key(), now).unwrap(), !held.is_empty());
            let listed = list(&db, None, 10, now).unwrap().locks;
            let mut found: Vec<_> = listed.iter().map(|lock| (lock.lock_id, lock.share.map(|share| share.slot))).collect();
            let mut expected: Vec<_> = held.iter().map(|held| (held.id, held.slot)).collect();
            found.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
            let last = held.iter().map(|held| held.until).max();
            let found = lookup(&db, &LookupQuery::Key(key()), now).unwrap();
            prop_assert_eq!(found.map(|lock| lock.expires_at_ms + TOLERANCE), last);
        }
    }
}
