//! Keys with several holders: what the contract cannot see.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::server::{Server, Tables, request, ttl, unique};
use crate::backend::postgres::PostgresBackend;
use crate::backend::report::Verdict;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, Holder, LookupQuery, Miss,
    ReleaseOutcome, Warnings, Watch,
};
use crate::error::ErrorCode;
use crate::lock::share::{MARK_LEASE_MS, UNLIMITED};
use crate::lock::{Access, HolderLabel, Key, LockId, Share};

const TIMEOUT: Duration = Duration::from_secs(5);
const QUIET_TIME: Duration = Duration::from_millis(300);

fn share(backend: &PostgresBackend, key: &str, limit: u32, ms: u32) -> AcquireRequest {
    let access = Access::Shared { limit };
    let request = request(key, ms);
    let capabilities = backend.capabilities();
    AcquireRequest {
        lock_id: capabilities.lock_id_for(&request.key, access, request.lock_id),
        access,
        ..request
    }
}

async fn acquire_share(backend: &PostgresBackend, key: &str, ms: u32) -> AcquireRequest {
    let request = share(backend, key, UNLIMITED, ms);
    let outcome = backend.acquire(&request).await.unwrap();
    assert!(matches!(
        outcome,
        AcquireOutcome::Acquired { share: Some(_), .. }
    ));
    request
}

async fn holder(backend: &PostgresBackend, request: &AcquireRequest) -> Holder {
    match backend.acquire(request).await.unwrap() {
        AcquireOutcome::Locked(Some(holder)) => holder,
        outcome => panic!("{outcome:?}"),
    }
}

async fn release(backend: &PostgresBackend, request: &AcquireRequest) -> ReleaseOutcome {
    backend.release(request.lock_id.into()).await.unwrap()
}

/// Opens another backend on the same tables.
fn second(server: &Server, t: &Tables, prepare: bool) -> PostgresBackend {
    let mut config = server.config();
    config.table_name.clone_from(&t.locks);
    config.fence_table_name.clone_from(&t.fences);
    config.prepare = prepare;
    PostgresBackend::open(config, Warnings::new(|_| {})).unwrap()
}

fn holders_of(t: &Tables) -> String {
    format!("{}_holders", t.locks)
}

/// Moves the expiry of a holder or a mark, and of the record with it, to `ms` from now.
async fn expire_in(server: &Server, t: &Tables, lock_id: &LockId, ms: i64) {
    let holders = holders_of(t);
    let (locks, id) = (&t.locks, lock_id.as_str());
    server
        .sql(&format!(
            "UPDATE {holders} SET expires_at_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + {ms} WHERE lock_id = '{id}'; \
             UPDATE {locks} AS record SET expires_at_ms = last_ms FROM \
             (SELECT record_id, max(expires_at_ms) AS last_ms FROM {holders} WHERE slot IS NOT NULL GROUP BY 1) AS own \
             WHERE record_id = record.lock_id"
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_of_a_key_from_the_first_to_the_last() {
    let server = Server::shared().await;
    for prepare in [true, false] {
        let t = server.backend(|config| config.prepare = prepare).await;
        for key in [
            "plain",
            "it's \\ $1 \"quoted\"",
            "nul \0 100%",
            "{\"json\":1}",
        ] {
            let (first, second) = (
                share(&t.backend, key, 2, 60_000),
                share(&t.backend, key, 2, 30_000),
            );
            for (index, request) in [(0, &first), (1, &second)] {
                let outcome = t.backend.acquire(request).await.unwrap();
                let AcquireOutcome::Acquired { fence, share, .. } = outcome else {
                    panic!("{outcome:?}");
                };
                assert_eq!(fence.value(), u64::from(index) + 1);
                let (slot, holders) = (index, index + 1);
                assert_eq!(share, Some(Share { slot, holders }));
            }
            // The limit is reached: the one that expires first makes room.
            let refused = holder(&t.backend, &share(&t.backend, key, 2, 1000)).await;
            assert!(refused.is_shared);
            assert!(refused.free_in < Duration::from_secs(32), "{refused:?}");
            // Two have to go for a limit of one, and for an exclusive lock.
            for access in [Access::Shared { limit: 1 }, Access::Exclusive] {
                let refused = AcquireRequest {
                    access,
                    ..request(key, 1000)
                };
                let refused = holder(&t.backend, &refused).await;
                assert!(refused.is_shared && refused.free_in > Duration::from_secs(50));
            }
            let query = LookupQuery::Key(first.key.clone());
            let last = t.backend.lookup(&query).await.unwrap().unwrap();
            assert!(last.key == key && last.lock_id == first.lock_id);
            assert_eq!(
                last.share,
                Some(Share {
                    slot: 0,
                    holders: 2
                })
            );
            let ExtendOutcome::Extended { expires_at_ms } =
                t.backend.extend(second.lock_id, ttl(90_000)).await.unwrap()
            else {
                panic!("not extended");
            };
            let last = t.backend.lookup(&query).await.unwrap().unwrap();
            assert!(last.lock_id == second.lock_id && last.expires_at_ms == expires_at_ms);
            assert_eq!(release(&t.backend, &second).await, ReleaseOutcome::Released);
            assert_eq!(
                release(&t.backend, &second).await,
                ReleaseOutcome::Missed(Miss::NotFound)
            );
            let refused = holder(&t.backend, &request(key, 1000)).await;
            assert!(refused.free_in <= Duration::from_secs(61), "{refused:?}");
            assert_eq!(release(&t.backend, &first).await, ReleaseOutcome::Released);
            assert!(!t.backend.is_locked(&first.key).await.unwrap());
        }
        for table in [&t.locks, &holders_of(&t)] {
            let count = format!("SELECT count(*) FROM {table}");
            assert_eq!(server.sql(&count).await.as_deref(), Some("0"), "{table}");
        }
        t.backend.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_holder_disturbs_nobody_and_leaves_its_slot() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let dead = acquire_share(&t.backend, "k", 60_000).await;
    let live = acquire_share(&t.backend, "k", 60_000).await;
    expire_in(&server, &t, &dead.lock_id, -1001).await;
    assert_eq!(
        t.backend.extend(dead.lock_id, ttl(1000)).await.unwrap(),
        ExtendOutcome::Missed(Miss::Expired)
    );
    assert_eq!(
        release(&t.backend, &dead).await,
        ReleaseOutcome::Missed(Miss::Expired)
    );
    let next = share(&t.backend, "k", 2, 60_000);
    let outcome = t.backend.acquire(&next).await.unwrap();
    let slot = Some(Share {
        slot: 0,
        holders: 2,
    });
    assert!(matches!(outcome, AcquireOutcome::Acquired { share, .. } if share == slot));
    assert_eq!(
        release(&t.backend, &dead).await,
        ReleaseOutcome::Missed(Miss::NotFound)
    );
    for request in [&next, &live] {
        assert_eq!(release(&t.backend, request).await, ReleaseOutcome::Released);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_of_a_record_that_was_replaced_find_nothing() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let old = acquire_share(&t.backend, "k", 60_000).await;
    // Another implementation has taken the key over. The row of the holder stays.
    let lock_id = LockId::generate();
    let id = lock_id.as_str();
    let replace = format!("UPDATE {} SET lock_id = '{id}'", t.locks);
    server.sql(&replace).await;
    assert_eq!(
        t.backend.extend(old.lock_id, ttl(1000)).await.unwrap(),
        ExtendOutcome::Missed(Miss::NotFound)
    );
    assert_eq!(
        release(&t.backend, &old).await,
        ReleaseOutcome::Missed(Miss::NotFound)
    );
    let by_id = LookupQuery::LockId(old.lock_id);
    assert!(t.backend.lookup(&by_id).await.unwrap().is_none());
    let refused = holder(&t.backend, &share(&t.backend, "k", 5, 1000)).await;
    assert!(!refused.is_shared);
    let by_key = LookupQuery::Key(old.key.clone());
    let found = t.backend.lookup(&by_key).await.unwrap().unwrap();
    assert!(found.lock_id == lock_id && found.share.is_none());
    assert_eq!(
        t.backend.release(lock_id.into()).await.unwrap(),
        ReleaseOutcome::Released
    );
    // The next share does not count the remains, and removes them.
    let next = share(&t.backend, "k", 1, 60_000);
    let outcome = t.backend.acquire(&next).await.unwrap();
    assert!(matches!(outcome, AcquireOutcome::Acquired { .. }));
    let count = format!("SELECT count(*) FROM {}", holders_of(&t));
    assert_eq!(server.sql(&count).await.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_keeps_readers_out_until_it_is_removed_or_ends() {
    let server = Server::shared().await;
    for prepare in [true, false] {
        let t = server.backend(|config| config.prepare = prepare).await;
        let reader = acquire_share(&t.backend, "k", 60_000).await;
        let marked = |mark| AcquireRequest {
            mark: Some(mark),
            ..request("k", 60_000)
        };
        let (one, other) = (LockId::generate(), LockId::generate());
        assert!(holder(&t.backend, &marked(one)).await.is_shared);
        let mark_lease = Duration::from_millis(MARK_LEASE_MS);
        let next = share(&t.backend, "k", UNLIMITED, 1000);
        let refused = holder(&t.backend, &next).await;
        assert!(refused.is_shared && refused.free_in <= mark_lease);
        // The last mark counts.
        holder(&t.backend, &marked(other)).await;
        t.backend.unmark(&next.key, one).await.unwrap();
        assert!(holder(&t.backend, &next).await.free_in <= mark_lease);
        t.backend.unmark(&next.key, other).await.unwrap();
        let granted = acquire_share(&t.backend, "k", 60_000).await;
        release(&t.backend, &granted).await;

        // It ends by itself.
        holder(&t.backend, &marked(one)).await;
        holder(&t.backend, &next).await;
        expire_in(&server, &t, &one, 0).await;
        let granted = acquire_share(&t.backend, "k", 60_000).await;
        release(&t.backend, &granted).await;

        // Without holders it keeps out readers, and not the writer.
        holder(&t.backend, &marked(one)).await;
        assert_eq!(release(&t.backend, &reader).await, ReleaseOutcome::Released);
        assert!(!t.backend.is_locked(&next.key).await.unwrap());
        let query = LookupQuery::Key(next.key.clone());
        assert!(t.backend.lookup(&query).await.unwrap().is_none());
        holder(&t.backend, &next).await;
        let writer = marked(one);
        let outcome = t.backend.acquire(&writer).await.unwrap();
        assert!(matches!(
            outcome,
            AcquireOutcome::Acquired { share: None, .. }
        ));
        // The lock has replaced the mark.
        assert_eq!(release(&t.backend, &writer).await, ReleaseOutcome::Released);
        let granted = acquire_share(&t.backend, "k", 60_000).await;
        // A writer that gives up leaves no record behind.
        holder(&t.backend, &marked(one)).await;
        release(&t.backend, &granted).await;
        t.backend.unmark(&next.key, one).await.unwrap();
        for table in [&t.locks, &holders_of(&t)] {
            let count = format!("SELECT count(*) FROM {table}");
            assert_eq!(server.sql(&count).await.as_deref(), Some("0"), "{table}");
        }
    }
}

/// Also for lockIds of another implementation that look like those of shared keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_an_earlier_version_keeps_exclusive_locks() {
    let server = Server::shared().await;
    for prepare in [true, false] {
        let t = server.backend(|config| config.prepare = prepare).await;
        let drop_table = format!("DROP TABLE {}", holders_of(&t));
        server.sql(&drop_table).await;
        let backend = second(&server, &t, prepare);

        for bits in 0..4 {
            let held = AcquireRequest {
                lock_id: LockId::generate().with_spare_bits(bits),
                mark: Some(LockId::generate()),
                ..request("k", 60_000)
            };
            let outcome = backend.acquire(&held).await.unwrap();
            assert!(matches!(outcome, AcquireOutcome::Acquired { .. }));
            assert!(matches!(
                backend
                    .acquire(&AcquireRequest {
                        lock_id: LockId::generate(),
                        ..held.clone()
                    })
                    .await
                    .unwrap(),
                AcquireOutcome::Locked(_)
            ));
            for query in [
                LookupQuery::Key(held.key.clone()),
                LookupQuery::LockId(held.lock_id),
            ] {
                let found = backend.lookup(&query).await.unwrap().unwrap();
                assert!(found.lock_id == held.lock_id && found.share.is_none());
            }
            let listed = backend.list(None, 10).await.unwrap();
            assert!(listed.locks.len() == 1 && listed.locks[0].lock_id == held.lock_id);
            assert!(matches!(
                backend.extend(held.lock_id, ttl(60_000)).await.unwrap(),
                ExtendOutcome::Extended { .. }
            ));
            assert_eq!(release(&backend, &held).await, ReleaseOutcome::Released);
            assert_eq!(
                release(&backend, &held).await,
                ReleaseOutcome::Missed(Miss::NotFound)
            );
            assert_eq!(
                backend.extend(held.lock_id, ttl(1)).await.unwrap(),
                ExtendOutcome::Missed(Miss::NotFound)
            );
            let by_id = LookupQuery::LockId(held.lock_id);
            assert!(backend.lookup(&by_id).await.unwrap().is_none());
            backend.acquire(&held).await.unwrap();
            assert!(backend.force_release(&held.key).await.unwrap());
        }

        let refused = backend.acquire(&share(&backend, "k", 2, 1000)).await;
        let error = refused.unwrap_err();
        assert_eq!(
            (error.code, error.outcome_unknown),
            (ErrorCode::InvalidArgument, false)
        );
        for part in [&holders_of(&t), "npx syncguard schema", "setupSchema()"] {
            assert!(error.message.contains(part), "{}", error.message);
        }
        let findings = backend.report().await.unwrap();
        let schema = findings.iter().find(|finding| finding.name == "schema");
        assert_eq!(schema.unwrap().verdict, Verdict::Warning);

        // Processes that are running notice that the table has been added.
        t.backend.setup().await.unwrap();
        let held = acquire_share(&backend, "k", 60_000).await;
        assert_eq!(release(&backend, &held).await, ReleaseOutcome::Released);
        assert!(
            backend
                .report()
                .await
                .unwrap()
                .iter()
                .all(|finding| finding.name != "schema" || finding.verdict == Verdict::Ok)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_missing_table_is_added_while_others_use_the_locks() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let drop_table = format!("DROP TABLE {}", holders_of(&t));
    server.sql(&drop_table).await;
    let delete = format!("DELETE FROM {}", t.locks);
    let _busy = server.begin_transaction(&delete).await;
    timeout(TIMEOUT, t.backend.setup()).await.unwrap().unwrap();
    acquire_share(&t.backend, "k", 1000).await;
}

/// Somebody who may not create tables can still call it on every start, as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_rights_is_told_and_keeps_exclusive_locks() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let role = unique("weak");
    let holders = holders_of(&t);
    server
        .sql(&format!(
            "CREATE ROLE {role} LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON {}, {} TO {role}",
            t.locks, t.fences
        ))
        .await;
    let open = |told: Arc<AtomicU32>| {
        let mut config = server.config();
        config.url = config
            .url
            .map(|url| url.replace("postgres@", &format!("{role}@")));
        config.table_name.clone_from(&t.locks);
        config.fence_table_name.clone_from(&t.fences);
        let warnings = Warnings::new(move |_| {
            told.fetch_add(1, Ordering::SeqCst);
        });
        PostgresBackend::open(config, warnings).unwrap()
    };
    let told = Arc::new(AtomicU32::new(0));
    // It may not read the table.
    let weak = open(Arc::clone(&told));
    let shared = acquire_share(&t.backend, "shared", 60_000).await;
    let writer = AcquireRequest {
        mark: Some(LockId::generate()),
        ..request("shared", 1000)
    };
    assert!(holder(&weak, &writer).await.is_shared);
    assert!(weak.is_locked(&shared.key).await.unwrap());
    let held = request("k", 60_000);
    weak.acquire(&held).await.unwrap();
    assert_eq!(release(&weak, &held).await, ReleaseOutcome::Released);
    let refused = weak.acquire(&share(&weak, "k", 2, 1000)).await;
    let error = refused.unwrap_err();
    assert_eq!(error.code, ErrorCode::AuthFailed);
    let findings = weak.report().await.unwrap();
    let rights = findings.iter().find(|finding| finding.name == "rights");
    assert_eq!(rights.unwrap().verdict, Verdict::Warning);
    weak.setup().await.unwrap();
    assert_eq!(told.load(Ordering::SeqCst), 0);
    // The table does not exist.
    server.sql(&format!("DROP TABLE {holders}")).await;
    let weak = open(Arc::clone(&told));
    weak.setup().await.unwrap();
    assert_eq!(told.load(Ordering::SeqCst), 1);
    weak.acquire(&held).await.unwrap();
    assert_eq!(release(&weak, &held).await, ReleaseOutcome::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_more_holders_than_the_limit() {
    let server = Server::shared().await;
    let t = Arc::new(server.backend(|_| {}).await);
    let second = Arc::new(second(&server, &t, false));
    const LIMIT: u32 = 3;
    let (inside, writing) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let slots = Arc::new(parking_lot::Mutex::new(BTreeSet::new()));
    let until = Instant::now() + Duration::from_secs(3);
    let tasks = (0..16).map(|task| {
        let (t, second) = (Arc::clone(&t), Arc::clone(&second));
        let (inside, writing, slots) = (
            Arc::clone(&inside),
            Arc::clone(&writing),
            Arc::clone(&slots),
        );
        tokio::spawn(async move {
            let backend = if task % 2 == 0 { &t.backend } else { &*second };
            let mut granted = 0;
            while Instant::now() < until || granted == 0 {
                let exclusive = task % 8 == 7;
                let request = match exclusive {
                    true => AcquireRequest {
                        mark: Some(LockId::generate()),
                        ..request("hot", 60_000)
                    },
                    false => share(backend, "hot", LIMIT, 60_000),
                };
                let outcome = backend.acquire(&request).await.unwrap();
                let AcquireOutcome::Acquired { share, .. } = outcome else {
                    sleep(Duration::from_millis(2)).await;
                    continue;
                };
                granted += 1;
                if exclusive {
                    assert_eq!(writing.fetch_add(1, Ordering::SeqCst), 0);
                    assert_eq!(inside.load(Ordering::SeqCst), 0);
                    writing.fetch_sub(1, Ordering::SeqCst);
                } else {
                    let slot = share.unwrap().slot;
                    assert!(slot < LIMIT && slots.lock().insert(slot), "slot {slot}");
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < LIMIT);
                    assert_eq!(writing.load(Ordering::SeqCst), 0);
                    assert!(matches!(
                        backend.extend(request.lock_id, ttl(60_000)).await.unwrap(),
                        ExtendOutcome::Extended { .. }
                    ));
                    slots.lock().remove(&slot);
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
                let released = release(backend, &request).await;
                assert_eq!(released, ReleaseOutcome::Released);
            }
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(server.sql(deadlocks).await.as_deref(), Some("0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_holder_is_listed_once_in_bounded_pages() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let mut expected = BTreeSet::new();
    for key in ["a", "c", "e nul \0"] {
        for _ in 0..7 {
            expected.insert(acquire_share(&t.backend, key, 60_000).await.lock_id);
        }
    }
    for key in ["b", "d", "f"] {
        let held = request(key, 60_000);
        t.backend.acquire(&held).await.unwrap();
        expected.insert(held.lock_id);
    }
    let expired = acquire_share(&t.backend, "a", 60_000).await;
    expire_in(&server, &t, &expired.lock_id, -1001).await;
    for limit in [1, 2, 5, 7, 100] {
        let mut seen = BTreeSet::new();
        let mut after = None;
        loop {
            let page = t.backend.list(after.as_deref(), limit).await.unwrap();
            assert!(page.locks.len() <= 2 * limit);
            for lock in page.locks {
                let holders = lock.share.map(|share| share.holders);
                let is_shared = ["a", "c", "e nul \0"].contains(&lock.key.as_str());
                assert_eq!(holders, is_shared.then_some(7));
                assert!(seen.insert(lock.lock_id), "listed twice, limit {limit}");
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert!(seen == expected, "limit {limit}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_holders_are_errors_and_free_nothing() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let held = acquire_share(&t.backend, "k", 60_000).await;
    for damage in [
        "slot = -1",
        "fence = 'x'",
        "fence = '999999999999999'",
        "acquired_at_ms = -1",
        "expires_at_ms = 9223372036854775807",
    ] {
        let sql = format!("UPDATE {} SET {damage}", holders_of(&t));
        server.sql(&sql).await;
        for query in [
            LookupQuery::Key(held.key.clone()),
            LookupQuery::LockId(held.lock_id),
        ] {
            let error = t.backend.lookup(&query).await.err().unwrap();
            assert_eq!(error.code, ErrorCode::Internal, "{damage}");
        }
        let refused = t.backend.acquire(&share(&t.backend, "k", 1, 1000)).await;
        assert!(
            matches!(refused, Ok(AcquireOutcome::Locked(_))),
            "{damage}: {refused:?}"
        );
    }
    // Without its holders the record is a lock that nobody can release.
    server.sql(&format!("DELETE FROM {}", holders_of(&t))).await;
    let refused = t.backend.acquire(&share(&t.backend, "k", 9, 1000)).await;
    assert!(matches!(refused, Ok(AcquireOutcome::Locked(Some(_)))));
    assert!(t.backend.force_release(&held.key).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_keep_their_labels() {
    let server = Server::shared().await;
    let t = server.backend(|config| config.holder_label = true).await;
    let label = HolderLabel::new("web 1").unwrap();
    let held = AcquireRequest {
        label: Some(label.clone()),
        ..share(&t.backend, "k", 2, 60_000)
    };
    t.backend.acquire(&held).await.unwrap();
    let refused = holder(&t.backend, &share(&t.backend, "k", 1, 1000)).await;
    assert_eq!(refused.label, Some(label.clone()));
    let query = LookupQuery::Key(held.key.clone());
    let found = t.backend.lookup(&query).await.unwrap().unwrap();
    assert_eq!(found.label, Some(label));
    acquire_share(&t.backend, "k", 90_000).await;
    let found = t.backend.lookup(&query).await.unwrap().unwrap();
    assert_eq!(found.label, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remains_of_dead_holders_are_removed() {
    let server = Server::shared().await;
    let t = server
        .backend(|config| config.cleanup_in_is_locked = true)
        .await;
    let holders = holders_of(&t);
    let insert = |id: &str, age_ms: u32| {
        format!(
            "INSERT INTO {holders} (lock_id, key, record_id, expires_at_ms, acquired_at_ms) \
             VALUES ('{id}', 'other', 'gone', (extract(epoch FROM clock_timestamp()) * 1000)::bigint - {age_ms}, 0)"
        )
    };
    server.sql(&insert("old", 61_000)).await;
    server.sql(&insert("recent", 30_000)).await;
    let ids =
        format!("SELECT string_agg(lock_id, ',' ORDER BY key) FROM {holders} WHERE key <> 'k'");
    acquire_share(&t.backend, "k", 60_000).await;
    wait_for(&server, &ids, "recent").await;

    // A forced release and the clean-up of an expired record remove its holders too.
    let of_key = |key: &str| format!("SELECT count(*) FROM {holders} WHERE key = '{key}'");
    assert!(
        t.backend
            .force_release(&Key::new("k").unwrap())
            .await
            .unwrap()
    );
    wait_for(&server, &of_key("k"), "0").await;
    let dead = acquire_share(&t.backend, "dead", 60_000).await;
    expire_in(&server, &t, &dead.lock_id, -3_000).await;
    assert!(!t.backend.is_locked(&dead.key).await.unwrap());
    wait_for(&server, &of_key("dead"), "0").await;
}

async fn wait_for(server: &Server, sql: &str, expected: &str) {
    let started = Instant::now();
    while server.sql(sql).await.as_deref() != Some(expected) {
        assert!(
            started.elapsed() < TIMEOUT,
            "{sql} never returns {expected}"
        );
        sleep(Duration::from_millis(20)).await;
    }
}

async fn is_woken(watch: &mut Box<dyn Watch>) -> bool {
    timeout(TIMEOUT, watch.changed()).await.is_ok()
}

async fn stays_quiet(watch: &mut Box<dyn Watch>) -> bool {
    timeout(QUIET_TIME, watch.changed()).await.is_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_frees_a_share_wakes_waiters_and_only_them() {
    let server = Server::shared().await;
    for prepare in [true, false] {
        let t = server.backend(|config| config.prepare = prepare).await;
        // Without prepared statements there is no connection that listens.
        let waiter = second(&server, &t, true);
        let (mut notifications, _client) = server.listen(&t.locks).await;
        let unheard = acquire_share(&t.backend, "k", 60_000).await;
        release(&t.backend, &unheard).await;

        let held = [
            acquire_share(&t.backend, "k", 60_000).await,
            acquire_share(&t.backend, "k", 60_000).await,
        ];
        assert!(timeout(QUIET_TIME, notifications.recv()).await.is_err());
        let mut watch = waiter.watch(&held[0].key).unwrap();
        assert!(is_woken(&mut watch).await);
        release(&t.backend, &held[0]).await;
        assert!(is_woken(&mut watch).await);

        let mark = LockId::generate();
        let writer = AcquireRequest {
            mark: Some(mark),
            ..request("k", 1000)
        };
        holder(&t.backend, &writer).await;
        t.backend
            .extend(held[1].lock_id, ttl(60_000))
            .await
            .unwrap();
        assert!(stays_quiet(&mut watch).await);
        t.backend
            .unmark(&writer.key, LockId::generate())
            .await
            .unwrap();
        assert!(stays_quiet(&mut watch).await);
        t.backend.unmark(&writer.key, mark).await.unwrap();
        assert!(is_woken(&mut watch).await);

        assert!(t.backend.force_release(&writer.key).await.unwrap());
        assert!(is_woken(&mut watch).await);
        assert_eq!(
            release(&t.backend, &held[1]).await,
            ReleaseOutcome::Missed(Miss::NotFound)
        );
    }
}
