//! Being told when a lock may be had.

use std::time::Duration;

use rand::RngExt;
use tokio::time::{Instant, timeout};

use super::damage::put_lock;
use super::{Server, acquire, key, sleep_ms, ttl};
use crate::backend::firestore::FirestoreBackend;
use crate::backend::firestore::watch::WatchPolicy;
use crate::backend::{Backend, Watch};
use crate::lock::LockId;

const LONG: Duration = Duration::from_secs(3600);

/// Nothing but a push makes a watch of this one return.
pub(super) fn strict() -> WatchPolicy {
    WatchPolicy {
        second_look: LONG,
        ..WatchPolicy::usual()
    }
}

pub(super) fn watch(backend: &FirestoreBackend, text: &str) -> Box<dyn Watch> {
    backend.watch(&key(text)).unwrap()
}

pub(super) async fn told(watch: &mut Box<dyn Watch>) {
    let told = timeout(Duration::from_secs(20), watch.changed()).await;
    told.expect("the watch should have returned");
}

pub(super) async fn not_told(watch: &mut Box<dyn Watch>) {
    let told = timeout(Duration::from_millis(200), watch.changed()).await;
    told.expect_err("the watch should not have returned");
}

impl Server {
    pub(super) fn strict_backend(&self) -> FirestoreBackend {
        self.open(self.config(), strict())
    }
}

#[tokio::test]
async fn a_release_by_another_is_told() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.strict_backend());
    let mut watch = watch(&two, "a");
    for _ in 0..3 {
        let held = acquire(&one, "a", 30_000).await.unwrap().unwrap();
        not_told(&mut watch).await;
        one.release(held.lock_id.into()).await.unwrap();
        told(&mut watch).await;
        acquire(&one, "a", 30_000).await.unwrap().unwrap();
        not_told(&mut watch).await;
        assert!(one.force_release(&key("a")).await.unwrap());
        told(&mut watch).await;
        not_told(&mut watch).await;
    }
    let listens = server.calls();
    assert_eq!(listens.iter().filter(|call| *call == "Listen").count(), 1);
}

#[tokio::test]
async fn what_happens_between_two_calls_is_not_forgotten() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.strict_backend());
    let held = acquire(&one, "a", 30_000).await.unwrap().unwrap();
    let mut watch = watch(&two, "a");
    not_told(&mut watch).await;
    one.release(held.lock_id.into()).await.unwrap();
    sleep_ms(100).await;
    told(&mut watch).await;
}

#[tokio::test]
async fn a_free_key_is_told_once_and_again_after_a_while() {
    let server = Server::start().await;
    let (strict, usual) = (server.strict_backend(), server.backend());
    let mut only_once = watch(&strict, "a");
    told(&mut only_once).await;
    not_told(&mut only_once).await;
    let mut again = watch(&usual, "a");
    let started = Instant::now();
    told(&mut again).await;
    not_told(&mut again).await;
    told(&mut again).await;
    assert!(started.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_watch_that_takes_the_place_of_another_learns_the_same() {
    let server = Server::start().await;
    let backend = server.strict_backend();
    let mut first = watch(&backend, "a");
    told(&mut first).await;
    // The stream hears of both at once.
    drop(first);
    told(&mut watch(&backend, "a")).await;
}

#[tokio::test]
async fn extending_is_not_told_but_the_end_is() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.strict_backend());
    let held = acquire(&one, "a", 30_000).await.unwrap().unwrap();
    let mut watch = watch(&two, "a");
    not_told(&mut watch).await;
    for ttl_ms in [60_000, 20_000, 1_000] {
        one.extend(held.lock_id, ttl(ttl_ms)).await.unwrap();
        not_told(&mut watch).await;
    }
    told(&mut watch).await;
    assert!(acquire(&two, "a", 1_000).await.unwrap().is_some());
}

#[tokio::test]
async fn a_take_over_and_a_lock_that_is_over_are_told() {
    let server = Server::start().await;
    let backend = server.strict_backend();
    put_lock(&backend, "a", LockId::generate(), 30_000).await;
    let mut watch = watch(&backend, "a");
    not_told(&mut watch).await;
    put_lock(&backend, "a", LockId::generate(), 30_000).await;
    told(&mut watch).await;
    not_told(&mut watch).await;
    put_lock(&backend, "a", LockId::generate(), -5_000).await;
    told(&mut watch).await;
    // Taken: nothing to be had.
    put_lock(&backend, "a", LockId::generate(), 30_000).await;
    not_told(&mut watch).await;
}

#[tokio::test]
async fn any_number_of_watches_share_one_stream() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.strict_backend());
    let keys = ["a", "b/c", "日本"];
    let mut held = Vec::new();
    let mut watches = Vec::new();
    for key in keys {
        held.push(acquire(&one, key, 30_000).await.unwrap().unwrap());
        watches.push([watch(&two, key), watch(&two, key), watch(&two, key)]);
    }
    server.calls();
    for watch in watches.iter_mut().flatten() {
        not_told(watch).await;
    }
    assert_eq!(server.calls(), ["Listen"]);
    for (watches, held) in watches.iter_mut().zip(held) {
        let [_, dropped, _] = watches;
        *dropped = watch(&two, "elsewhere");
        one.release(held.lock_id.into()).await.unwrap();
        let [first, _, last] = watches;
        told(first).await;
        told(last).await;
    }
    // Who comes later learns what is known already, without another question.
    told(&mut watch(&two, "a")).await;
    let calls = server.calls();
    assert!(!calls.contains(&"Listen".to_owned()), "{calls:?}");
}

#[tokio::test]
async fn a_watch_may_be_given_up_at_any_time() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.strict_backend());
    let held = acquire(&one, "a", 30_000).await.unwrap().unwrap();
    for _ in 0..200 {
        let mut watch = watch(&two, "a");
        let micros = rand::rng().random_range(0..3_000);
        let _ = timeout(Duration::from_micros(micros), watch.changed()).await;
    }
    let mut last = watch(&two, "a");
    not_told(&mut last).await;
    one.release(held.lock_id.into()).await.unwrap();
    told(&mut last).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_release_is_missed() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.strict_backend());
    for round in 0..500 {
        let held = acquire(&one, "a", 3_600_000).await.unwrap().unwrap();
        let [before_release, before_attempt] =
            [6_000, 4_000].map(|most| Duration::from_micros(rand::rng().random_range(0..most)));
        let releasing = async {
            tokio::time::sleep(before_release).await;
            one.release(held.lock_id.into()).await.unwrap();
        };
        let waiting = async {
            tokio::time::sleep(before_attempt).await;
            let mut watch = watch(&two, "a");
            loop {
                if let Some(held) = acquire(&two, "a", 3_600_000).await.unwrap() {
                    return held;
                }
                let told = timeout(Duration::from_secs(20), watch.changed()).await;
                assert!(told.is_ok(), "missed in round {round}");
            }
        };
        let ((), held) = tokio::join!(releasing, waiting);
        two.release(held.lock_id.into()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_told_about_when_the_releaser_has_its_answer() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.strict_backend());
    let mut watch = watch(&two, "a");
    told(&mut watch).await;
    let mut times = Vec::new();
    for _ in 0..200 {
        let held = acquire(&one, "a", 3_600_000).await.unwrap().unwrap();
        let told = async {
            told(&mut watch).await;
            Instant::now()
        };
        let released = async {
            // Long enough for the push of the acquire.
            sleep_ms(2).await;
            one.release(held.lock_id.into()).await.unwrap();
            Instant::now()
        };
        let (told_at, released_at) = tokio::join!(told, released);
        times.push(told_at.saturating_duration_since(released_at));
    }
    times.sort_unstable();
    let (p50, p99) = (times[100], times[198]);
    println!("told after the releaser's answer: p50 {p50:?}, p99 {p99:?}");
    assert!(p50 < Duration::from_millis(50), "{p50:?}");
}

#[tokio::test]
async fn nothing_is_asked_before_a_watch_is_used_nor_long_after() {
    let server = Server::start().await;
    let policy = WatchPolicy {
        linger: Duration::from_secs(1),
        ..strict()
    };
    let backend = server.open(server.config(), policy);
    let mut unused = watch(&backend, "a");
    sleep_ms(50).await;
    assert!(server.calls().is_empty());
    told(&mut unused).await;
    assert_eq!(server.calls(), ["Listen"]);
    drop(unused);
    // The stream is still there for who comes soon, and not for who comes late.
    sleep_ms(100).await;
    told(&mut watch(&backend, "b")).await;
    assert!(server.calls().is_empty());
    sleep_ms(2_000).await;
    told(&mut watch(&backend, "b")).await;
    assert_eq!(server.calls(), ["Listen"]);
}
