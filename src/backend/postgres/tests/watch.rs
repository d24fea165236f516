//! Notifications that a lock may be free.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::server::{Server, Tables, request};
use crate::backend::postgres::PostgresBackend;
use crate::backend::{AcquireOutcome, AcquireRequest, Backend, ReleaseOutcome, Warnings, Watch};
use crate::lock::Key;

const TIMEOUT: Duration = Duration::from_secs(5);
const QUIET_TIME: Duration = Duration::from_millis(300);

/// Opens another backend on the same tables, which it calls by another name.
fn second(server: &Server, tables: &Tables) -> PostgresBackend {
    let mut config = server.config();
    config.table_name = format!("public.{}", tables.locks);
    config.fence_table_name.clone_from(&tables.fences);
    PostgresBackend::open(config, Warnings::new(|_| {})).unwrap()
}

/// Watches the key. Returns once the watch is in force.
async fn watch(backend: &PostgresBackend, key: &Key) -> Box<dyn Watch> {
    let mut watch = backend.watch(key).unwrap();
    assert!(is_woken(&mut watch).await);
    watch
}

async fn is_woken(watch: &mut Box<dyn Watch>) -> bool {
    timeout(TIMEOUT, watch.changed()).await.is_ok()
}

async fn stays_quiet(watch: &mut Box<dyn Watch>) -> bool {
    timeout(QUIET_TIME, watch.changed()).await.is_err()
}

async fn acquire(backend: &PostgresBackend, key: &str) -> AcquireRequest {
    let request = request(key, 60_000);
    let outcome = backend.acquire(&request).await.unwrap();
    assert!(matches!(outcome, AcquireOutcome::Acquired { .. }));
    request
}

async fn release(backend: &PostgresBackend, held: &AcquireRequest) {
    let outcome = backend.release(held.lock_id.into()).await.unwrap();
    assert_eq!(outcome, ReleaseOutcome::Released);
}

/// Counts the signs for keys of this table.
async fn signs(server: &Server, tables: &Tables) -> String {
    let sql = format!(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND mode = 'ShareLock' AND classid = '{}'::regclass",
        tables.locks
    );
    server.sql(&sql).await.unwrap()
}

async fn wait_for_signs(server: &Server, tables: &Tables, count: &str) {
    let started = Instant::now();
    while signs(server, tables).await != count {
        assert!(started.elapsed() < TIMEOUT, "never {count} signs");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Selects the sessions that listen, by what they ran last.
const LISTENING: &str = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query ~ '^(LISTEN|SELECT pg_advisory|SELECT hashtext)'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_and_forced_releases_wake_waiters_of_other_backends() {
    let server = Server::shared().await;
    for prepare in [true, false] {
        let t = server.backend(|config| config.prepare = prepare).await;
        let waiter = second(&server, &t);
        let held = acquire(&t.backend, "it's \\ a key").await;
        let other = acquire(&t.backend, "other").await;
        let mut watch = watch(&waiter, &held.key).await;
        assert!(stays_quiet(&mut watch).await);
        release(&t.backend, &other).await;
        assert!(stays_quiet(&mut watch).await);

        release(&t.backend, &held).await;
        assert!(is_woken(&mut watch).await);
        assert!(stays_quiet(&mut watch).await);

        let again = acquire(&t.backend, "it's \\ a key").await;
        assert!(t.backend.force_release(&again.key).await.unwrap());
        // The watch reports what happened before the call.
        sleep(QUIET_TIME).await;
        assert!(is_woken(&mut watch).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_an_expired_lock_wakes_waiters() {
    let server = Server::shared().await;
    let t = server
        .backend(|config| config.cleanup_in_is_locked = true)
        .await;
    let held = acquire(&t.backend, "k").await;
    let mut watch = watch(&t.backend, &held.key).await;
    let age = format!("UPDATE {} SET expires_at_ms = 1", t.locks);
    server.sql(&age).await;
    assert!(!t.backend.is_locked(&held.key).await.unwrap());
    assert!(is_woken(&mut watch).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_notification_is_sent_if_nobody_waits() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let (mut notifications, _client) = server.listen(&t.locks).await;
    let key = acquire(&t.backend, "k").await;
    release(&t.backend, &key).await;
    let held = acquire(&t.backend, "k").await;
    t.backend.force_release(&held.key).await.unwrap();
    // Now there is a waiter, but for another key.
    let other = watch(&t.backend, &Key::new("other").unwrap()).await;
    let held = acquire(&t.backend, "k").await;
    release(&t.backend, &held).await;
    drop(other);
    wait_for_signs(&server, &t, "0").await;
    let held = acquire(&t.backend, "other").await;
    release(&t.backend, &held).await;
    assert!(timeout(QUIET_TIME, notifications.recv()).await.is_err());

    let _watch = watch(&t.backend, &held.key).await;
    let held = acquire(&t.backend, "other").await;
    release(&t.backend, &held).await;
    let payload = timeout(TIMEOUT, notifications.recv())
        .await
        .unwrap()
        .unwrap();
    assert!(!payload.contains("other"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_of_one_key_share_a_sign_until_the_last_one_ends() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let held = acquire(&t.backend, "k").await;
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(watch(&t.backend, &held.key).await);
    }
    let unused_watch = t.backend.watch(&held.key).unwrap();
    let other = watch(&t.backend, &Key::new("nul \0").unwrap()).await;
    assert_eq!(signs(&server, &t).await, "2");
    release(&t.backend, &held).await;
    for watch in &mut watches {
        assert!(is_woken(watch).await);
    }
    drop(watches.pop());
    drop(other);
    wait_for_signs(&server, &t, "1").await;
    let again = acquire(&t.backend, "k").await;
    release(&t.backend, &again).await;
    for watch in &mut watches {
        assert!(is_woken(watch).await);
    }
    drop(watches);
    wait_for_signs(&server, &t, "0").await;
    drop(unused_watch);
    // The connection is still open, so a new watch is in force at once.
    let _again = watch(&t.backend, &held.key).await;
    assert_eq!(signs(&server, &t).await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_signs_is_limited() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let keys: Vec<_> = (0..130)
        .map(|n| Key::new(&format!("k{n}")).unwrap())
        .collect();
    let mut waiting = JoinSet::new();
    for key in &keys {
        let mut watch = t.backend.watch(key).unwrap();
        waiting.spawn(async move {
            watch.changed().await;
            watch
        });
    }
    wait_for_signs(&server, &t, "100").await;
    // Watches that end make room for others.
    while let Some(watch) = timeout(TIMEOUT, waiting.join_next()).await.unwrap() {
        drop(watch);
        let signs: u32 = signs(&server, &t).await.parse().unwrap();
        assert!(signs <= 100);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_woken_after_the_connection_was_lost_and_reopened() {
    let mut server = Server::start().await;
    let t = server.backend(|_| {}).await;
    let first = acquire(&t.backend, "first").await;
    let second = acquire(&t.backend, "second").await;
    let mut watches = [
        watch(&t.backend, &first.key).await,
        watch(&t.backend, &second.key).await,
    ];
    for times in 0..5 {
        let killed = format!("SELECT count(pg_terminate_backend(pid)) {LISTENING}");
        assert_eq!(server.sql(&killed).await.as_deref(), Some("1"), "{times}");
        for watch in &mut watches {
            assert!(is_woken(watch).await);
        }
        assert_eq!(signs(&server, &t).await, "2");
    }
    server.kill();
    for watch in &mut watches {
        assert!(stays_quiet(watch).await);
    }
    server.restart().await;
    for watch in &mut watches {
        assert!(is_woken(watch).await);
    }
    release(&t.backend, &first).await;
    assert!(is_woken(&mut watches[0]).await);
    assert!(stays_quiet(&mut watches[1]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connection_is_opened_when_it_is_needed_and_closed_later() {
    let server = Server::start().await;
    let listening = format!("SELECT count(*) {LISTENING}");
    let count = async || server.sql(&listening).await.unwrap();
    let ended = async || {
        let started = Instant::now();
        while count().await != "0" {
            assert!(started.elapsed() < TIMEOUT);
            sleep(Duration::from_millis(10)).await;
        }
    };
    let t = server.backend(|_| {}).await;
    let key = Key::new("k").unwrap();
    let unused_watch = t.backend.watch(&key).unwrap();
    acquire(&t.backend, "k").await;
    sleep(QUIET_TIME).await;
    assert_eq!(count().await, "0");
    let watch_in_force = watch(&t.backend, &key).await;
    assert_eq!(count().await, "1");
    drop((watch_in_force, unused_watch));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(count().await, "1");
    sleep(Duration::from_secs(4)).await;
    ended().await;

    let mut open = watch(&t.backend, &key).await;
    t.backend.close().await;
    ended().await;
    assert!(stays_quiet(&mut open).await);
    assert!(stays_quiet(&mut t.backend.watch(&key).unwrap()).await);

    // This backend is dropped without being closed.
    let t = server.backend(|_| {}).await;
    let mut open = watch(&t.backend, &key).await;
    drop(t);
    ended().await;
    assert!(stays_quiet(&mut open).await);
}

/// A waiter that arrives while the lock is being released finds it free or is woken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_release_is_missed() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let waiter = second(&server, &t);
    for round in 0..2000 {
        let held = acquire(&t.backend, "hot").await;
        let mut watch = waiter.watch(&held.key).unwrap();
        let waiting = async {
            loop {
                assert!(
                    is_woken(&mut watch).await,
                    "round {round} missed the release"
                );
                let attempt = request("hot", 60_000);
                if let AcquireOutcome::Acquired { .. } = waiter.acquire(&attempt).await.unwrap() {
                    return attempt;
                }
            }
        };
        let releasing = async {
            sleep(Duration::from_micros(rand::random_range(0..2500))).await;
            release(&t.backend, &held).await;
        };
        let (taken, ()) = tokio::join!(waiting, releasing);
        release(&waiter, &taken).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_may_be_dropped_at_any_time() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let kept = acquire(&t.backend, "k0").await;
    let mut watch = watch(&t.backend, &kept.key).await;
    for _ in 0..500 {
        let key = Key::new(&format!("k{}", rand::random_range(0..5))).unwrap();
        let mut dropped = t.backend.watch(&key).unwrap();
        let moment = Duration::from_micros(rand::random_range(0..1500));
        let _ = timeout(moment, dropped.changed()).await;
    }
    wait_for_signs(&server, &t, "1").await;
    assert!(stays_quiet(&mut watch).await);
    release(&t.backend, &kept).await;
    assert!(is_woken(&mut watch).await);
}
