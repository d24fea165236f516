//! Being told that a lock may be free.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::server::{Server, Tables, request};
use crate::backend::postgres::PostgresBackend;
use crate::backend::{AcquireOutcome, AcquireRequest, Backend, ReleaseOutcome, Warnings, Watch};
use crate::lock::Key;

const SOON: Duration = Duration::from_secs(5);
const A_WHILE: Duration = Duration::from_millis(300);

/// Another backend on the same tables, by another name.
fn second(server: &Server, tables: &Tables) -> PostgresBackend {
    let mut config = server.config();
    config.table_name = format!("public.{}", tables.locks);
    config.fence_table_name.clone_from(&tables.fences);
    PostgresBackend::open(config, Warnings::new(|_| {})).unwrap()
}

/// A watch that is in force.
async fn watch(backend: &PostgresBackend, key: &Key) -> Box<dyn Watch> {
    let mut watch = backend.watch(key).unwrap();
    assert!(told(&mut watch).await);
    watch
}

async fn told(watch: &mut Box<dyn Watch>) -> bool {
    timeout(SOON, watch.changed()).await.is_ok()
}

async fn stays_quiet(watch: &mut Box<dyn Watch>) -> bool {
    timeout(A_WHILE, watch.changed()).await.is_err()
}

async fn take(backend: &PostgresBackend, key: &str) -> AcquireRequest {
    let request = request(key, 60_000);
    let outcome = backend.acquire(&request).await.unwrap();
    assert!(matches!(outcome, AcquireOutcome::Acquired { .. }));
    request
}

async fn release(backend: &PostgresBackend, held: &AcquireRequest) {
    let outcome = backend.release(held.lock_id.into()).await.unwrap();
    assert_eq!(outcome, ReleaseOutcome::Released);
}

/// How many signs there are for the keys of this table.
async fn signs(server: &Server, tables: &Tables) -> String {
    let sql = format!(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND mode = 'ShareLock' AND classid = '{}'::regclass",
        tables.locks
    );
    server.sql(&sql).await.unwrap()
}

async fn until_signs(server: &Server, tables: &Tables, count: &str) {
    let started = Instant::now();
    while signs(server, tables).await != count {
        assert!(started.elapsed() < SOON, "never {count} signs");
        sleep(Duration::from_millis(10)).await;
    }
}

/// What the listening connections of this server run last.
const LISTENING: &str = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query ~ '^(LISTEN|SELECT pg_advisory|SELECT hashtext)'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_and_a_removal_are_told_across_backends() {
    let server = Server::shared().await;
    for prepare in [true, false] {
        let t = server.backend(|config| config.prepare = prepare).await;
        let waiter = second(&server, &t);
        let held = take(&t.backend, "it's \\ a key").await;
        let other = take(&t.backend, "other").await;
        let mut watch = watch(&waiter, &held.key).await;
        assert!(stays_quiet(&mut watch).await);
        release(&t.backend, &other).await;
        assert!(stays_quiet(&mut watch).await);

        release(&t.backend, &held).await;
        assert!(told(&mut watch).await);
        assert!(stays_quiet(&mut watch).await);

        let again = take(&t.backend, "it's \\ a key").await;
        assert!(t.backend.force_release(&again.key).await.unwrap());
        // What happened before the call is not forgotten.
        sleep(A_WHILE).await;
        assert!(told(&mut watch).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_lock_that_is_cleaned_up_is_told() {
    let server = Server::shared().await;
    let t = server
        .backend(|config| config.cleanup_in_is_locked = true)
        .await;
    let held = take(&t.backend, "k").await;
    let mut watch = watch(&t.backend, &held.key).await;
    let age = format!("UPDATE {} SET expires_at_ms = 1", t.locks);
    server.sql(&age).await;
    assert!(!t.backend.is_locked(&held.key).await.unwrap());
    assert!(told(&mut watch).await);
}

/// A session of ours listens to the channel itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_while_nobody_waits() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let (mut notifications, _client) = server.listen(&t.locks).await;
    let key = take(&t.backend, "k").await;
    release(&t.backend, &key).await;
    let held = take(&t.backend, "k").await;
    t.backend.force_release(&held.key).await.unwrap();
    // Somebody waits, but for another key.
    let other = watch(&t.backend, &Key::new("other").unwrap()).await;
    let held = take(&t.backend, "k").await;
    release(&t.backend, &held).await;
    drop(other);
    until_signs(&server, &t, "0").await;
    let held = take(&t.backend, "other").await;
    release(&t.backend, &held).await;
    assert!(timeout(A_WHILE, notifications.recv()).await.is_err());

    let _watch = watch(&t.backend, &held.key).await;
    let held = take(&t.backend, "other").await;
    release(&t.backend, &held).await;
    let payload = timeout(SOON, notifications.recv()).await.unwrap().unwrap();
    assert!(!payload.contains("other"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_of_one_key_share_a_sign_which_goes_with_the_last() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let held = take(&t.backend, "k").await;
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(watch(&t.backend, &held.key).await);
    }
    let unasked = t.backend.watch(&held.key).unwrap();
    let other = watch(&t.backend, &Key::new("nul \0").unwrap()).await;
    assert_eq!(signs(&server, &t).await, "2");
    release(&t.backend, &held).await;
    for watch in &mut watches {
        assert!(told(watch).await);
    }
    drop(watches.pop());
    drop(other);
    until_signs(&server, &t, "1").await;
    let again = take(&t.backend, "k").await;
    release(&t.backend, &again).await;
    for watch in &mut watches {
        assert!(told(watch).await);
    }
    drop(watches);
    until_signs(&server, &t, "0").await;
    drop(unasked);
    // The connection is still there: a new watch is in force at once.
    let _again = watch(&t.backend, &held.key).await;
    assert_eq!(signs(&server, &t).await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_signs_than_the_server_can_bear() {
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
    until_signs(&server, &t, "100").await;
    // Those that go make room for the others.
    while let Some(watch) = timeout(SOON, waiting.join_next()).await.unwrap() {
        drop(watch);
        let signs: u32 = signs(&server, &t).await.parse().unwrap();
        assert!(signs <= 100);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_made_again_and_told_of() {
    let mut server = Server::start().await;
    let t = server.backend(|_| {}).await;
    let first = take(&t.backend, "first").await;
    let second = take(&t.backend, "second").await;
    let mut watches = [
        watch(&t.backend, &first.key).await,
        watch(&t.backend, &second.key).await,
    ];
    for times in 0..5 {
        let killed = format!("SELECT count(pg_terminate_backend(pid)) {LISTENING}");
        assert_eq!(server.sql(&killed).await.as_deref(), Some("1"), "{times}");
        for watch in &mut watches {
            assert!(told(watch).await);
        }
        assert_eq!(signs(&server, &t).await, "2");
    }
    server.kill();
    for watch in &mut watches {
        assert!(stays_quiet(watch).await);
    }
    server.restart().await;
    for watch in &mut watches {
        assert!(told(watch).await);
    }
    release(&t.backend, &first).await;
    assert!(told(&mut watches[0]).await);
    assert!(stays_quiet(&mut watches[1]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connection_is_made_when_it_is_needed_and_ends() {
    let server = Server::start().await;
    let listening = format!("SELECT count(*) {LISTENING}");
    let count = async || server.sql(&listening).await.unwrap();
    let ended = async || {
        let started = Instant::now();
        while count().await != "0" {
            assert!(started.elapsed() < SOON);
            sleep(Duration::from_millis(10)).await;
        }
    };
    let t = server.backend(|_| {}).await;
    let key = Key::new("k").unwrap();
    let unasked = t.backend.watch(&key).unwrap();
    take(&t.backend, "k").await;
    sleep(A_WHILE).await;
    assert_eq!(count().await, "0");
    let asked = watch(&t.backend, &key).await;
    assert_eq!(count().await, "1");
    drop((asked, unasked));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(count().await, "1");
    sleep(Duration::from_secs(4)).await;
    ended().await;

    let mut open = watch(&t.backend, &key).await;
    t.backend.close().await;
    ended().await;
    assert!(stays_quiet(&mut open).await);
    assert!(stays_quiet(&mut t.backend.watch(&key).unwrap()).await);

    // A backend that is dropped and not closed.
    let t = server.backend(|_| {}).await;
    let mut open = watch(&t.backend, &key).await;
    drop(t);
    ended().await;
    assert!(stays_quiet(&mut open).await);
}

/// A waiter that comes while the lock is being released sees it free or is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_release_slips_through() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let waiter = second(&server, &t);
    for round in 0..2000 {
        let held = take(&t.backend, "hot").await;
        let mut watch = waiter.watch(&held.key).unwrap();
        let waiting = async {
            loop {
                assert!(told(&mut watch).await, "round {round} missed the release");
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
    let kept = take(&t.backend, "k0").await;
    let mut watch = watch(&t.backend, &kept.key).await;
    for _ in 0..500 {
        let key = Key::new(&format!("k{}", rand::random_range(0..5))).unwrap();
        let mut dropped = t.backend.watch(&key).unwrap();
        let moment = Duration::from_micros(rand::random_range(0..1500));
        let _ = timeout(moment, dropped.changed()).await;
    }
    until_signs(&server, &t, "1").await;
    assert!(stays_quiet(&mut watch).await);
    release(&t.backend, &kept).await;
    assert!(told(&mut watch).await);
}
