//! What a watch tells. What happens when its connection has trouble is in `watch_faults`.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::server::{Server, request, ttl};
use crate::backend::redis::RedisBackend;
use crate::backend::{AcquireOutcome, AcquireRequest, Backend, ReleaseOutcome, Watch};
use crate::lock::Key;

/// What is promised, with room for a busy machine.
pub(super) const SOON: Duration = Duration::from_secs(5);
/// Long enough for a push that should not come.
pub(super) const A_WHILE: Duration = Duration::from_millis(150);

pub(super) fn watch(backend: &RedisBackend, key: &str) -> Box<dyn Watch> {
    backend.watch(&Key::new(key).unwrap()).unwrap()
}

pub(super) async fn told(watch: &mut Box<dyn Watch>) {
    timeout(SOON, watch.changed()).await.expect("told in time");
}

pub(super) async fn not_told(watch: &mut Box<dyn Watch>) {
    let told = timeout(A_WHILE, watch.changed()).await;
    assert!(told.is_err(), "there was nothing to tell");
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
    /// A number of `INFO`.
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

    /// The connections that track, as `CLIENT LIST` shows them.
    pub(super) async fn tracking(&self) -> Vec<String> {
        let list: String = self.run(&["CLIENT", "LIST"]).await;
        let tracks = |line: &&str| line.split(' ').any(|field| field == "flags=t");
        list.lines().filter(tracks).map(str::to_owned).collect()
    }

    pub(super) async fn until_tracked(&self, keys: usize) {
        let started = Instant::now();
        while self.info("tracking_total_keys:").await < keys {
            assert!(started.elapsed() < SOON, "not tracked in time");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_release_of_another_connection() {
    let server = Server::start(&[]).await;
    let (holder, waiter) = (server.backend(""), server.backend(""));
    let lock = acquire(&holder, "k", 30_000).await;
    let mut watch = watch(&waiter, "k");
    not_told(&mut watch).await;
    release(&holder, &lock).await;
    let released = Instant::now();
    told(&mut watch).await;
    assert!(released.elapsed() < Duration::from_millis(500));
    not_told(&mut watch).await;

    // It goes on: the lock of the next holder, and the one after it.
    for _ in 0..2 {
        let lock = acquire(&holder, "k", 30_000).await;
        not_told(&mut watch).await;
        release(&holder, &lock).await;
        told(&mut watch).await;
    }
}

#[tokio::test]
async fn a_key_that_is_free_already() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    let mut first = watch(&backend, "k");
    told(&mut first).await;
    not_told(&mut first).await;
    told(&mut watch(&backend, "k")).await;
}

#[tokio::test]
async fn what_happens_before_the_call_is_not_forgotten() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    let lock = acquire(&backend, "k", 30_000).await;
    let mut watch = watch(&backend, "k");
    // Dropped at its await.
    not_told(&mut watch).await;
    server.until_tracked(1).await;
    release(&backend, &lock).await;
    sleep(A_WHILE).await;
    let _lock = acquire(&backend, "k", 30_000).await;
    sleep(A_WHILE).await;
    told(&mut watch).await;
}

#[tokio::test]
async fn an_expiry() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    acquire(&backend, "k", 1000).await;
    let mut watch = watch(&backend, "k");
    not_told(&mut watch).await;
    told(&mut watch).await;
    assert!(!backend.is_locked(&Key::new("k").unwrap()).await.unwrap());
}

#[tokio::test]
async fn strangers_who_delete_and_flush() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    let mut watch = watch(&backend, "k");
    told(&mut watch).await;
    for command in [&["DEL", "syncguard:k"][..], &["FLUSHALL"], &["FLUSHDB"]] {
        acquire(&backend, "k", 30_000).await;
        not_told(&mut watch).await;
        let _: redis::Value = server.run(command).await;
        told(&mut watch).await;
        not_told(&mut watch).await;
    }
}

#[tokio::test]
async fn a_heartbeat_tells_nothing_and_costs_one_read() {
    let server = Server::start(&[]).await;
    let (holder, waiter) = (server.backend(""), server.backend(""));
    let lock = acquire(&holder, "k", 30_000).await;
    let (mut one, mut two) = (watch(&waiter, "k"), watch(&waiter, "k"));
    not_told(&mut one).await;
    not_told(&mut two).await;
    for _ in 0..3 {
        holder.extend(lock.lock_id, ttl(30_000)).await.unwrap();
        not_told(&mut one).await;
        not_told(&mut two).await;
    }
    // The script reads too, so the key is written by other means.
    let reads = server.info("cmdstat_get:calls=").await;
    for _ in 0..5 {
        let _: () = server.run(&["SET", "syncguard:k", "x"]).await;
        not_told(&mut one).await;
    }
    let reads = server.info("cmdstat_get:calls=").await - reads;
    assert!((1..=5).contains(&reads), "{reads}");
    let _: u32 = server.run(&["DEL", "syncguard:k"]).await;
    told(&mut one).await;
    told(&mut two).await;
}

#[tokio::test]
async fn a_key_with_any_name_and_a_prefix() {
    let server = Server::start(&[]).await;
    let backend = server.backend(r#","keyPrefix":"äpp","clientKeyPrefix":"outer:""#);
    for key in ["ünï cødé 🔒\r\n\0", "fence:x", &"long".repeat(128)] {
        let lock = acquire(&backend, key, 30_000).await;
        let mut watch = watch(&backend, key);
        not_told(&mut watch).await;
        release(&backend, &lock).await;
        told(&mut watch).await;
    }
}

#[tokio::test]
async fn something_that_is_not_a_lock() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    let _: u32 = server.run(&["RPUSH", "syncguard:k", "x"]).await;
    // An attempt can tell what is wrong.
    told(&mut watch(&backend, "k")).await;
    let lock = acquire(&backend, "other", 30_000).await;
    let mut other = watch(&backend, "other");
    not_told(&mut other).await;
    release(&backend, &lock).await;
    told(&mut other).await;
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
        timeout(SOON, task).await.expect("told in time").unwrap();
    }
}

/// As a waiter does it: an attempt, and after each refusal the watch.
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
                    let told = timeout(Duration::from_secs(10), watch.changed()).await;
                    told.expect("a release was missed");
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
