//! Waiters are notified of what others commit to the file.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::*;
use crate::backend::Watch;

/// Far longer than a notification takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Long enough for the observer to look several times.
const A_WHILE: Duration = Duration::from_millis(200);

/// Two backends on one file. To SQLite it makes no difference whether they are in one process.
fn two(dir: &TestDir) -> (SqliteBackend, SqliteBackend) {
    (backend(&dir.file()), backend(&dir.file()))
}

fn watch(backend: &SqliteBackend, lock: &AcquireRequest) -> Box<dyn Watch> {
    backend.watch(&lock.key).unwrap()
}

async fn notified(watch: &mut Box<dyn Watch>) {
    timeout(PATIENCE, watch.changed())
        .await
        .expect("not notified");
}

async fn not_notified(watch: &mut Box<dyn Watch>) {
    assert!(timeout(A_WHILE, watch.changed()).await.is_err());
}

async fn held(backend: &SqliteBackend, key: &str) -> AcquireRequest {
    let lock = request(key);
    assert!(granted(backend.acquire(&lock).await.unwrap()).is_some());
    lock
}

async fn until(condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE);
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_free_key_is_notified_at_once_and_a_locked_one_is_not() {
    let dir = TestDir::new();
    let (holder, waiter) = two(&dir);
    let lock = request("k");
    let mut early = watch(&waiter, &lock);
    notified(&mut early).await;
    holder.acquire(&lock).await.unwrap();
    // This is the holder that the watch waits for.
    not_notified(&mut early).await;
    not_notified(&mut watch(&waiter, &lock)).await;
    holder.close().await;
    waiter.close().await;
}

#[tokio::test]
async fn a_release_is_notified_even_if_it_came_before_the_call() {
    let dir = TestDir::new();
    let (holder, waiter) = two(&dir);
    let lock = held(&holder, "k").await;
    let mut watch = watch(&waiter, &lock);
    not_notified(&mut watch).await;
    holder.release(lock.lock_id.into()).await.unwrap();
    notified(&mut watch).await;
    // Once more, without a lookup in between.
    let lock = held(&holder, "k").await;
    holder.release(lock.lock_id.into()).await.unwrap();
    notified(&mut watch).await;
    holder.close().await;
    waiter.close().await;
}

#[tokio::test]
async fn a_release_by_the_same_backend_is_notified() {
    let dir = TestDir::new();
    let backend = backend(&dir.file());
    let lock = held(&backend, "k").await;
    let mut watch = watch(&backend, &lock);
    not_notified(&mut watch).await;
    backend.release(lock.lock_id.into()).await.unwrap();
    notified(&mut watch).await;
    backend.close().await;
}

#[tokio::test]
async fn a_forced_release_and_a_new_holder_are_notified() {
    let dir = TestDir::new();
    let (holder, waiter) = two(&dir);
    let lock = held(&holder, "k").await;
    let mut watch = watch(&waiter, &lock);
    not_notified(&mut watch).await;
    assert!(holder.force_release(&lock.key).await.unwrap());
    notified(&mut watch).await;

    let lock = held(&holder, "k").await;
    not_notified(&mut watch).await;
    let next = request("k");
    // In one transaction, so that the key is never seen as free.
    let (released, acquired) =
        tokio::join!(holder.release(lock.lock_id.into()), holder.acquire(&next));
    assert_eq!(released, Ok(ReleaseOutcome::Released));
    assert!(granted(acquired.unwrap()).is_some());
    notified(&mut watch).await;
    not_notified(&mut watch).await;
    holder.close().await;
    waiter.close().await;
}

#[tokio::test]
async fn heartbeats_and_other_keys_are_not_notified() {
    let dir = TestDir::new();
    let (holder, waiter) = two(&dir);
    let lock = held(&holder, "k").await;
    let mut watch = watch(&waiter, &lock);
    let disturb = async {
        for _ in 0..20 {
            holder.extend(lock.lock_id, ttl(60_000)).await.unwrap();
            let other = held(&holder, "other").await;
            holder.release(other.lock_id.into()).await.unwrap();
            sleep(Duration::from_millis(10)).await;
        }
        sleep(A_WHILE).await;
    };
    tokio::select! {
        () = watch.changed() => panic!("notified"),
        () = disturb => {}
    }
    holder.release(lock.lock_id.into()).await.unwrap();
    notified(&mut watch).await;
    holder.close().await;
    waiter.close().await;
}

/// A waiter knows the expiry from its refused attempt, so it need not be notified of it.
#[tokio::test]
async fn an_expired_lock_is_notified_with_the_next_commit() {
    let dir = TestDir::new();
    let (holder, waiter) = two(&dir);
    let lock = AcquireRequest {
        ttl: ttl(1),
        ..request("k")
    };
    holder.acquire(&lock).await.unwrap();
    let mut watch = watch(&waiter, &lock);
    not_notified(&mut watch).await;
    let free = async {
        while waiter.is_locked(&lock.key).await.unwrap() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, free).await.unwrap();
    held(&holder, "other").await;
    notified(&mut watch).await;
    // A watch that begins only now is notified, too.
    notified(&mut waiter.watch(&lock.key).unwrap()).await;
    let lock = held(&holder, "k").await;
    not_notified(&mut watch).await;
    holder.release(lock.lock_id.into()).await.unwrap();
    notified(&mut watch).await;
    holder.close().await;
    waiter.close().await;
}

#[tokio::test]
async fn the_end_of_one_share_is_notified_and_a_new_one_is_not() {
    let dir = TestDir::new();
    let (holder, waiter) = two(&dir);
    let share = || AcquireRequest {
        access: crate::lock::Access::Shared { limit: 3 },
        ..request("k")
    };
    let (one, two) = (share(), share());
    for lock in [&one, &two] {
        assert!(granted(holder.acquire(lock).await.unwrap()).is_some());
    }
    let mut watch = watch(&waiter, &one);
    // A share may have ended between the refused attempt and this call.
    notified(&mut watch).await;
    not_notified(&mut watch).await;
    holder.extend(one.lock_id, ttl(90_000)).await.unwrap();
    let three = share();
    assert!(granted(holder.acquire(&three).await.unwrap()).is_some());
    not_notified(&mut watch).await;
    holder.release(two.lock_id.into()).await.unwrap();
    notified(&mut watch).await;
    // It came and went before the watch looked again.
    let brief = share();
    holder.acquire(&brief).await.unwrap();
    holder.release(brief.lock_id.into()).await.unwrap();
    notified(&mut watch).await;
    not_notified(&mut watch).await;
    // Another watch of the key does not rely on what this one has seen.
    notified(&mut waiter.watch(&one.key).unwrap()).await;

    let mark = LockId::generate();
    let writer = AcquireRequest {
        mark: Some(mark),
        ..request("k")
    };
    assert!(granted(holder.acquire(&writer).await.unwrap()).is_none());
    not_notified(&mut watch).await;
    holder.unmark(&writer.key, mark).await.unwrap();
    notified(&mut watch).await;
    holder.close().await;
    waiter.close().await;
}

#[tokio::test]
async fn each_watch_is_notified_of_its_own_key() {
    let dir = TestDir::new();
    let (holder, waiter) = two(&dir);
    let mut locks = Vec::new();
    for n in 0..50 {
        locks.push(held(&holder, &format!("k{n}")).await);
    }
    let (even, odd): (Vec<_>, Vec<_>) = locks.iter().enumerate().partition(|(n, _)| n % 2 == 0);
    let mut even_watches: Vec<_> = even.iter().map(|(_, lock)| watch(&waiter, lock)).collect();
    let mut odd_watches: Vec<_> = odd.iter().map(|(_, lock)| watch(&waiter, lock)).collect();
    let mut odd_notified =
        futures_util::future::select_all(odd_watches.iter_mut().map(|watch| watch.changed()));
    let even_notified = async {
        let all = even_watches.iter_mut().map(|watch| watch.changed());
        let mut all = std::pin::pin!(futures_util::future::join_all(all));
        assert!(timeout(A_WHILE, &mut all).await.is_err());
        for (_, lock) in &even {
            holder.release(lock.lock_id.into()).await.unwrap();
        }
        timeout(PATIENCE, all).await.expect("not notified");
        sleep(A_WHILE).await;
    };
    tokio::select! {
        _ = &mut odd_notified => panic!("notified"),
        () = even_notified => {}
    }
    drop(odd_notified);
    holder.close().await;
    waiter.close().await;
}

#[tokio::test]
async fn a_watch_may_be_dropped_at_any_time() {
    let dir = TestDir::new();
    let (holder, waiter) = two(&dir);
    let lock = held(&holder, "k").await;
    let mut watch = watch(&waiter, &lock);
    for _ in 0..100 {
        let mut call = watch.changed();
        assert!(futures_util::poll!(&mut call).is_pending());
    }
    not_notified(&mut watch).await;
    // The call is dropped although the release was notified.
    let mut call = watch.changed();
    assert!(futures_util::poll!(&mut call).is_pending());
    holder.release(lock.lock_id.into()).await.unwrap();
    sleep(A_WHILE).await;
    drop(call);
    held(&holder, "k").await;
    notified(&mut watch).await;
    not_notified(&mut watch).await;
    drop(watch);
    holder.close().await;
    waiter.close().await;
}

#[tokio::test]
async fn the_thread_runs_while_a_key_is_watched_and_ends_soon_after() {
    let dir = TestDir::new();
    let (holder, waiter) = two(&dir);
    let lock = held(&holder, "k").await;
    assert!(!waiter.connections.watcher.is_running());
    // Other processes commit all the time.
    let others = async {
        loop {
            let other = held(&holder, "other").await;
            holder.release(other.lock_id.into()).await.unwrap();
            sleep(Duration::from_millis(20)).await;
        }
    };
    let twice = async {
        for _ in 0..2 {
            let mut watch = watch(&waiter, &lock);
            not_notified(&mut watch).await;
            assert!(waiter.connections.watcher.is_running());
            drop(watch);
            until(|| !waiter.connections.watcher.is_running()).await;
        }
    };
    tokio::select! {
        () = others => unreachable!(),
        () = twice => {}
    }
    // The connection of the watch is closed, too: the last one to close leaves a single file.
    holder.close().await;
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    waiter.close().await;
}

#[tokio::test]
async fn close_ends_watches() {
    let dir = TestDir::new();
    let (holder, waiter) = two(&dir);
    let lock = held(&holder, "k").await;
    let mut watch = watch(&waiter, &lock);
    let mut call = watch.changed();
    assert!(timeout(A_WHILE, &mut call).await.is_err());
    waiter.close().await;
    assert!(!waiter.connections.watcher.is_running());
    holder.release(lock.lock_id.into()).await.unwrap();
    assert!(timeout(A_WHILE, &mut call).await.is_err());
    drop(call);
    not_notified(&mut watch).await;
    assert!(!waiter.connections.watcher.is_running());
    holder.close().await;
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn a_deleted_or_replaced_file_is_notified() {
    let dir = TestDir::new();
    let (holder, waiter) = two(&dir);
    let lock = held(&holder, "k").await;
    let mut watch = watch(&waiter, &lock);
    not_notified(&mut watch).await;
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    notified(&mut watch).await;
    // From now on the new file is watched.
    let lock = held(&holder, "k").await;
    not_notified(&mut watch).await;
    holder.release(lock.lock_id.into()).await.unwrap();
    notified(&mut watch).await;
    holder.close().await;
    waiter.close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_watch_waits_while_the_file_cannot_be_opened() {
    let dir = TestDir::new();
    let (holder, waiter) = two(&dir);
    let lock = held(&holder, "k").await;
    let mut watch = watch(&waiter, &lock);
    not_notified(&mut watch).await;
    let folder = dir.path().join("elsewhere");
    std::fs::create_dir(&folder).unwrap();
    for name in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        std::fs::rename(dir.path().join(name), folder.join(name)).unwrap();
    }
    std::fs::create_dir(dir.file()).unwrap();
    not_notified(&mut watch).await;
    std::fs::remove_dir(dir.file()).unwrap();
    notified(&mut watch).await;
    holder.close().await;
    waiter.close().await;
}
