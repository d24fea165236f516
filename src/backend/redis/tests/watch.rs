//! When a watch wakes. `watch_faults` tests failures of its connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::server::{Server, request, ttl};
use crate::backend::redis::RedisBackend;
use crate::backend::{AcquireOutcome, AcquireRequest, Backend, ReleaseOutcome, Watch};
use crate::lock::Key;

/// A wake-up that takes longer is missing, even on a busy machine.
pub(super) const WAKE_LIMIT: Duration = Duration::from_secs(5);
/// After this time, a push that should not come has not come.
pub(super) const NO_PUSH_WITHIN: Duration = Duration::from_millis(150);

pub(super) fn watch(backend: &RedisBackend, key: &str) -> Box<dyn Watch> {
    backend.watch(&Key::new(key).unwrap()).unwrap()
}

pub(super) async fn woken(watch: &mut Box<dyn Watch>) {
    timeout(WAKE_LIMIT, watch.changed())
        .await
        .expect("woken in time");
}

pub(super) async fn not_woken(watch: &mut Box<dyn Watch>) {
    let woken = timeout(NO_PUSH_WITHIN, watch.changed()).await;
    assert!(woken.is_err(), "nothing happened to the key");
}

pub(super) async fn acquire(backend: &RedisBackend, key: &str, ttl_ms: u32) -> AcquireRequest {
    let lock = request(key, ttl_ms);
    let outcome = backend.acquire(&lock).await.unwrap();
    assert!(matches!(outcome, AcquireOutcome::Acquired { .. }));
    lock
}

pub(super) async fn release(backend: &RedisBackend, lock: &AcquireRequest) {
    let outcome = backend.release(lock.lock_id.into()).await.unwrap();
    assert_eq!(outcome, ReleaseOutcome::Released);
}

impl Server {
    /// Returns a number of `INFO`.
    pub(super) async fn info(&self, name: &str) -> usize {
        let text: String = self.run(&["INFO", "all"]).await;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.map(|line| {
            line.trim_start_matches(|c: char| !c.is_ascii_digit())
                .split(|c: char| !c.is_ascii_digit())
                .next()
        });
        number.flatten().map_or(0, |number| number.parse().unwrap())
    }

    /// Returns the lines of `CLIENT LIST` for connections that track.
    pub(super) async fn tracking(&self) -> Vec<String> {
        let list: String = self.run(&["CLIENT", "LIST"]).await;
        let tracks = |line: &&str| line.split(' ').any(|field| field == "flags=t");
        list.lines().filter(tracks).map(str::to_owned).collect()
    }

    pub(super) async fn until_tracked(&self, keys: usize) {
        let started = Instant::now();
        while self.info("tracking_total_keys:").await < keys {
            assert!(started.elapsed() < WAKE_LIMIT, "not tracked in time");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_release_by_another_connection_wakes() {
    let server = Server::start(&[]).await;
    let (holder, waiter) = (server.backend(""), server.backend(""));
    let lock = acquire(&holder, "k", 30_000).await;
    let mut watch = watch(&waiter, "k");
    not_woken(&mut watch).await;
    release(&holder, &lock).await;
    let released = Instant::now();
    woken(&mut watch).await;
    assert!(released.elapsed() < Duration::from_millis(500));
    not_woken(&mut watch).await;

    // The watch continues with the lock of the next holder, and the one after it.
    for _ in 0..2 {
        let lock = acquire(&holder, "k", 30_000).await;
        not_woken(&mut watch).await;
        release(&holder, &lock).await;
        woken(&mut watch).await;
    }
}

#[tokio::test]
async fn a_key_that_is_free_wakes_at_once() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    let mut first = watch(&backend, "k");
    woken(&mut first).await;
    not_woken(&mut first).await;
    woken(&mut watch(&backend, "k")).await;
}

#[tokio::test]
async fn a_change_before_the_call_is_not_lost() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    let lock = acquire(&backend, "k", 30_000).await;
    let mut watch = watch(&backend, "k");
    // The future is dropped at its await.
    not_woken(&mut watch).await;
    server.until_tracked(1).await;
    release(&backend, &lock).await;
    sleep(NO_PUSH_WITHIN).await;
    let _lock = acquire(&backend, "k", 30_000).await;
    sleep(NO_PUSH_WITHIN).await;
    woken(&mut watch).await;
}

#[tokio::test]
async fn an_expiry_wakes() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    acquire(&backend, "k", 1000).await;
    let mut watch = watch(&backend, "k");
    not_woken(&mut watch).await;
    woken(&mut watch).await;
    assert!(!backend.is_locked(&Key::new("k").unwrap()).await.unwrap());
}

#[tokio::test]
async fn deletes_and_flushes_of_other_clients_wake() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    let mut watch = watch(&backend, "k");
    woken(&mut watch).await;
    for command in [&["DEL", "syncguard:k"][..], &["FLUSHALL"], &["FLUSHDB"]] {
        acquire(&backend, "k", 30_000).await;
        not_woken(&mut watch).await;
        let _: redis::Value = server.run(command).await;
        woken(&mut watch).await;
        not_woken(&mut watch).await;
    }
}

#[tokio::test]
async fn a_heartbeat_wakes_nobody_and_costs_one_read() {
    let server = Server::start(&[]).await;
    let (holder, waiter) = (server.backend(""), server.backend(""));
    let lock = acquire(&holder, "k", 30_000).await;
    let (mut one, mut two) = (watch(&waiter, "k"), watch(&waiter, "k"));
    not_woken(&mut one).await;
    not_woken(&mut two).await;
    for _ in 0..3 {
        holder.extend(lock.lock_id, ttl(30_000)).await.unwrap();
        not_woken(&mut one).await;
        not_woken(&mut two).await;
    }
    // The extend script reads the key, too, so write the key with SET.
    let reads = server.info("cmdstat_get:calls=").await;
    for _ in 0..5 {
        let _: () = server.run(&["SET", "syncguard:k", "x"]).await;
        not_woken(&mut one).await;
    }
    let reads = server.info("cmdstat_get:calls=").await - reads;
    assert!((1..=5).contains(&reads), "{reads}");
    let _: u32 = server.run(&["DEL", "syncguard:k"]).await;
    woken(&mut one).await;
    woken(&mut two).await;
}

#[tokio::test]
async fn a_key_may_have_any_name_and_prefix() {
    let server = Server::start(&[]).await;
    let backend = server.backend(r#","keyPrefix":"äpp","clientKeyPrefix":"outer:""#);
    for key in ["ünï cødé 🔒\r\n\0", "fence:x", &"long".repeat(128)] {
        let lock = acquire(&backend, key, 30_000).await;
        let mut watch = watch(&backend, key);
        not_woken(&mut watch).await;
        release(&backend, &lock).await;
        woken(&mut watch).await;
    }
}

#[tokio::test]
async fn a_value_that_is_not_a_lock_wakes() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    let _: u32 = server.run(&["RPUSH", "syncguard:k", "x"]).await;
    // The waiter's attempt reports what is wrong.
    woken(&mut watch(&backend, "k")).await;
    let lock = acquire(&backend, "other", 30_000).await;
    let mut other = watch(&backend, "other");
    not_woken(&mut other).await;
    release(&backend, &lock).await;
    woken(&mut other).await;
}

#[tokio::test]
async fn many_keys_share_one_connection() {
    const KEYS: usize = 1000;
    let server = Server::start(&[]).await;
    let (holder, waiter) = (server.backend(""), server.backend(""));
    let mut locks = Vec::new();
    for i in 0..KEYS {
        locks.push(acquire(&holder, &format!("k{i}"), 60_000).await);
    }
    let watching: Vec<_> = (0..KEYS)
        .map(|i| {
            let mut watch = watch(&waiter, &format!("k{i}"));
            tokio::spawn(async move { watch.changed().await })
        })
        .collect();
    server.until_tracked(KEYS).await;
    assert_eq!(server.tracking().await.len(), 1);
    assert!(watching.iter().all(|task| !task.is_finished()));
    for lock in &locks {
        release(&holder, lock).await;
    }
    for task in watching {
        timeout(WAKE_LIMIT, task)
            .await
            .expect("woken in time")
            .unwrap();
    }
}

/// Waits as a waiter does: makes an attempt, and watches after each refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_release_is_missed() {
    const ROUNDS: usize = 500;
    let server = Server::start(&[]).await;
    let (holder, waiter) = (server.backend(""), server.backend(""));
    let (holder, waiter) = (Arc::new(holder), Arc::new(waiter));
    let keys = ["a", "b", "c", "d"].map(|key| {
        let (holder, waiter) = (Arc::clone(&holder), Arc::clone(&waiter));
        tokio::spawn(async move {
            let mut kept = watch(&waiter, key);
            for round in 0..ROUNDS {
                let held = acquire(&holder, key, 60_000).await;
                let releasing = tokio::spawn({
                    let holder = Arc::clone(&holder);
                    let pause = Duration::from_micros(rand::random_range(0..2000));
                    async move {
                        sleep(pause).await;
                        release(&holder, &held).await;
                    }
                });
                let mut fresh = watch(&waiter, key);
                let watch = if round % 2 == 0 {
                    &mut kept
                } else {
                    &mut fresh
                };
                let lock = request(key, 60_000);
                while let AcquireOutcome::Locked(_) = waiter.acquire(&lock).await.unwrap() {
                    let woken = timeout(Duration::from_secs(10), watch.changed()).await;
                    woken.expect("a release was missed");
                }
                release(&waiter, &lock).await;
                releasing.await.unwrap();
            }
        })
    });
    for task in keys {
        task.await.unwrap();
    }
    assert_eq!(server.tracking().await.len(), 1);
}
