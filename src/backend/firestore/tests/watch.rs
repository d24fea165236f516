//! Waiters are notified when their key may be free.

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

/// With this policy a watch returns only after a report of the server.
pub(super) fn strict() -> WatchPolicy {
    WatchPolicy {
        look_again: LONG,
        ..WatchPolicy::default()
    }
}

pub(super) fn watch(backend: &FirestoreBackend, text: &str) -> Box<dyn Watch> {
    backend.watch(&key(text)).unwrap()
}

pub(super) async fn notified(watch: &mut Box<dyn Watch>) {
    let result = timeout(Duration::from_secs(20), watch.changed()).await;
    result.expect("the watch should have returned");
}

pub(super) async fn not_notified(watch: &mut Box<dyn Watch>) {
    let result = timeout(Duration::from_millis(200), watch.changed()).await;
    result.expect_err("the watch should not have returned");
}

impl Server {
    pub(super) fn strict_backend(&self) -> FirestoreBackend {
        self.open(self.config(), strict())
    }
}

#[tokio::test]
async fn a_release_by_another_process_notifies() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.strict_backend());
    let mut watch = watch(&two, "a");
    for _ in 0..3 {
        let held = acquire(&one, "a", 30_000).await.unwrap().unwrap();
        not_notified(&mut watch).await;
        one.release(held.lock_id.into()).await.unwrap();
        notified(&mut watch).await;
        acquire(&one, "a", 30_000).await.unwrap().unwrap();
        not_notified(&mut watch).await;
        assert!(one.force_release(&key("a")).await.unwrap());
        notified(&mut watch).await;
        not_notified(&mut watch).await;
    }
    let listens = server.calls();
    assert_eq!(listens.iter().filter(|call| *call == "Listen").count(), 1);
}

#[tokio::test]
async fn a_change_between_two_calls_is_not_lost() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.strict_backend());
    let held = acquire(&one, "a", 30_000).await.unwrap().unwrap();
    let mut watch = watch(&two, "a");
    not_notified(&mut watch).await;
    one.release(held.lock_id.into()).await.unwrap();
    sleep_ms(100).await;
    notified(&mut watch).await;
}

#[tokio::test]
async fn a_key_that_stays_free_notifies_again_after_a_while() {
    let server = Server::start().await;
    let (strict, usual) = (server.strict_backend(), server.backend());
    let mut only_once = watch(&strict, "a");
    notified(&mut only_once).await;
    not_notified(&mut only_once).await;
    let mut again = watch(&usual, "a");
    let started = Instant::now();
    notified(&mut again).await;
    not_notified(&mut again).await;
    notified(&mut again).await;
    assert!(started.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_watch_that_replaces_another_is_notified_of_a_free_key() {
    let server = Server::start().await;
    let backend = server.strict_backend();
    let mut first = watch(&backend, "a");
    notified(&mut first).await;
    // The stream sees the end of the first watch and the start of the second at once.
    drop(first);
    notified(&mut watch(&backend, "a")).await;
}

#[tokio::test]
async fn an_extended_lock_does_not_notify_but_an_expired_one_does() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.backend());
    let held = acquire(&one, "a", 30_000).await.unwrap().unwrap();
    let mut watch = watch(&two, "a");
    not_notified(&mut watch).await;
    for ttl_ms in [60_000, 20_000, 1_000] {
        one.extend(held.lock_id, ttl(ttl_ms)).await.unwrap();
        not_notified(&mut watch).await;
    }
    notified(&mut watch).await;
    assert!(acquire(&two, "a", 1_000).await.unwrap().is_some());
}

#[tokio::test]
async fn a_new_holder_and_an_expired_lock_notify() {
    let server = Server::start().await;
    let backend = server.strict_backend();
    put_lock(&backend, "a", LockId::generate(), 30_000).await;
    let mut watch = watch(&backend, "a");
    not_notified(&mut watch).await;
    put_lock(&backend, "a", LockId::generate(), 30_000).await;
    notified(&mut watch).await;
    not_notified(&mut watch).await;
    put_lock(&backend, "a", LockId::generate(), -5_000).await;
    notified(&mut watch).await;
    // The key is locked again, so an attempt would be refused.
    put_lock(&backend, "a", LockId::generate(), 30_000).await;
    not_notified(&mut watch).await;
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
        not_notified(watch).await;
    }
    assert_eq!(server.calls(), ["Listen"]);
    for (watches, held) in watches.iter_mut().zip(held) {
        let [_, dropped, _] = watches;
        *dropped = watch(&two, "elsewhere");
        one.release(held.lock_id.into()).await.unwrap();
        let [first, _, last] = watches;
        notified(first).await;
        notified(last).await;
    }
    // A later watch learns what is already known, without another request.
    notified(&mut watch(&two, "a")).await;
    let calls = server.calls();
    assert!(!calls.contains(&"Listen".to_owned()), "{calls:?}");
}

#[tokio::test]
async fn a_watch_may_be_dropped_at_any_time() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.strict_backend());
    let held = acquire(&one, "a", 30_000).await.unwrap().unwrap();
    for _ in 0..200 {
        let mut watch = watch(&two, "a");
        let micros = rand::rng().random_range(0..3_000);
        let _ = timeout(Duration::from_micros(micros), watch.changed()).await;
    }
    let mut last = watch(&two, "a");
    not_notified(&mut last).await;
    one.release(held.lock_id.into()).await.unwrap();
    notified(&mut last).await;
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
                let result = timeout(Duration::from_secs(20), watch.changed()).await;
                assert!(result.is_ok(), "missed in round {round}");
            }
        };
        let ((), held) = tokio::join!(releasing, waiting);
        two.release(held.lock_id.into()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_arrives_together_with_the_answer_to_the_release() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.strict_backend());
    let mut watch = watch(&two, "a");
    notified(&mut watch).await;
    let mut times = Vec::new();
    for _ in 0..200 {
        let held = acquire(&one, "a", 3_600_000).await.unwrap().unwrap();
        let notification = async {
            notified(&mut watch).await;
            Instant::now()
        };
        let released = async {
            // The report of the acquire arrives within this time.
            sleep_ms(2).await;
            one.release(held.lock_id.into()).await.unwrap();
            Instant::now()
        };
        let (notified_at, released_at) = tokio::join!(notification, released);
        times.push(notified_at.saturating_duration_since(released_at));
    }
    times.sort_unstable();
    let (p50, p99) = (times[100], times[198]);
    println!("notified after the releaser's answer: p50 {p50:?}, p99 {p99:?}");
    assert!(p50 < Duration::from_millis(50), "{p50:?}");
}

#[tokio::test]
async fn the_stream_is_open_only_while_a_watch_is_in_use_and_a_little_longer() {
    let server = Server::start().await;
    let policy = WatchPolicy {
        linger: Duration::from_secs(1),
        ..strict()
    };
    let backend = server.open(server.config(), policy);
    let mut unused = watch(&backend, "a");
    sleep_ms(50).await;
    assert!(server.calls().is_empty());
    notified(&mut unused).await;
    assert_eq!(server.calls(), ["Listen"]);
    drop(unused);
    // A watch that follows soon finds the stream open, and a later one does not.
    sleep_ms(100).await;
    notified(&mut watch(&backend, "b")).await;
    assert!(server.calls().is_empty());
    sleep_ms(2_000).await;
    notified(&mut watch(&backend, "b")).await;
    assert_eq!(server.calls(), ["Listen"]);
}
