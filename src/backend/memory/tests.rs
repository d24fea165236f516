use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use futures_util::FutureExt;

use super::*;
use crate::backend::{AcquireOutcome, AcquireRequest, Backend, Watch};
use crate::lock::{Access, Key, LockId, Ttl};

fn request(key: &Key) -> AcquireRequest {
    AcquireRequest {
        key: key.clone(),
        lock_id: LockId::generate(),
        ttl: ttl(),
        label: None,
        caller: 0,
        access: Access::Exclusive,
        mark: None,
    }
}

fn ttl() -> Ttl {
    Ttl::from_number(5000.0).unwrap()
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn woken(watch: &mut Box<dyn Watch>) -> bool {
    watch.changed().now_or_never().is_some()
}

#[tokio::test]
async fn expiry_follows_the_clock_it_is_given() {
    let now = Arc::new(AtomicU64::new(1000));
    let clock = Arc::clone(&now);
    let backend = MemoryBackend::with_clock(move || clock.load(Ordering::Relaxed));
    let key = key("k");
    let AcquireOutcome::Acquired { expires_at_ms, .. } =
        backend.acquire(&request(&key)).await.unwrap()
    else {
        panic!("nobody else holds it")
    };
    assert_eq!(expires_at_ms, 6000);
    now.store(6999, Ordering::Relaxed);
    assert!(backend.is_locked(&key).await.unwrap());
    now.store(7000, Ordering::Relaxed);
    assert!(!backend.is_locked(&key).await.unwrap());
    // A clock may also be put back.
    now.store(0, Ordering::Relaxed);
    assert!(backend.is_locked(&key).await.unwrap());
}

#[tokio::test]
async fn a_watch_is_woken_once_by_everything_that_frees_its_key() {
    let backend = MemoryBackend::new();
    let key = key("k");
    let mut watch = backend.watch(&key).unwrap();
    // It is free.
    assert!(woken(&mut watch));
    assert!(!woken(&mut watch));

    let lock = request(&key);
    backend.acquire(&lock).await.unwrap();
    backend.extend(lock.lock_id, ttl()).await.unwrap();
    assert!(!woken(&mut watch));
    assert!(!woken(&mut backend.watch(&key).unwrap()));
    backend.release(lock.lock_id.into()).await.unwrap();
    assert!(woken(&mut watch));
    assert!(!woken(&mut watch));

    backend.acquire(&lock).await.unwrap();
    backend.force_release(&key).await.unwrap();
    assert!(woken(&mut watch));
    assert!(!woken(&mut watch));
}

#[tokio::test]
async fn a_watch_is_woken_when_an_expired_lock_is_replaced() {
    let now = Arc::new(AtomicU64::new(1000));
    let clock = Arc::clone(&now);
    let backend = MemoryBackend::with_clock(move || clock.load(Ordering::Relaxed));
    let key = key("k");
    backend.acquire(&request(&key)).await.unwrap();
    let mut watch = backend.watch(&key).unwrap();
    assert!(!woken(&mut watch));
    now.store(10_000, Ordering::Relaxed);
    backend.acquire(&request(&key)).await.unwrap();
    assert!(woken(&mut watch));
}

#[tokio::test]
async fn each_watch_is_woken_and_only_for_its_own_key() {
    let backend = MemoryBackend::new();
    let (one, other) = (key("one"), key("other"));
    let locks = [request(&one), request(&other)];
    for lock in &locks {
        backend.acquire(lock).await.unwrap();
    }
    let mut watches = [&one, &one, &other].map(|key| backend.watch(key).unwrap());
    backend.release(locks[0].lock_id.into()).await.unwrap();
    assert_eq!(watches.each_mut().map(woken), [true, true, false]);
    drop(watches);
    backend
        .shared
        .run(|store, _| assert!(store.watches.is_empty()));
}

/// Uses the backend as soon as it is woken.
struct Prompt {
    backend: Arc<MemoryBackend>,
    answered: AtomicBool,
}

impl Wake for Prompt {
    fn wake(self: Arc<Self>) {
        let (answer, answered) = mpsc::channel();
        let backend = Arc::clone(&self.backend);
        // On another thread, which would block if this one had locked the store.
        std::thread::spawn(move || answer.send(backend.is_locked(&key("k")).now_or_never()));
        let answered = answered.recv_timeout(Duration::from_secs(10)).is_ok();
        self.answered.store(answered, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_woken_waiter_finds_the_store_unlocked() {
    let backend = Arc::new(MemoryBackend::new());
    let lock = request(&key("k"));
    backend.acquire(&lock).await.unwrap();
    let prompt = Arc::new(Prompt {
        backend: Arc::clone(&backend),
        answered: AtomicBool::new(false),
    });
    let waker = Waker::from(Arc::clone(&prompt));
    let mut watch = backend.watch(&lock.key).unwrap();
    let mut call = watch.changed();
    let polled = call.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    backend.release(lock.lock_id.into()).await.unwrap();
    assert!(prompt.answered.load(Ordering::Relaxed));
}
