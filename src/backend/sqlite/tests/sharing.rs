//! Several connections on one file. To SQLite it makes no difference whose process they are in.

use std::sync::Arc;

use futures_util::future::join_all;
use rusqlite::Connection;

use super::*;

#[tokio::test]
async fn operations_that_wait_together_get_the_results_they_would_get_alone() {
    let dir = TestDir::new();
    let backend = backend(&dir.file());
    let locks: Vec<_> = (0..500).map(|n| request(&format!("k{}", n % 50))).collect();
    let outcomes = join_all(locks.iter().map(|lock| backend.acquire(lock))).await;
    let holders: Vec<_> = std::iter::zip(&locks, outcomes)
        .filter_map(|(lock, outcome)| granted(outcome.unwrap()).map(|fence| (lock, fence)))
        .collect();
    // The first of each key, in the order in which they came.
    assert!(
        holders
            .iter()
            .map(|(lock, _)| lock.lock_id)
            .eq(locks[..50].iter().map(|lock| lock.lock_id))
    );
    assert!(holders.iter().all(|(_, fence)| fence.value() == 1));
    let released = join_all(
        locks
            .iter()
            .map(|lock| backend.release(lock.lock_id.into())),
    )
    .await;
    let released = released
        .into_iter()
        .filter(|outcome| *outcome == Ok(ReleaseOutcome::Released));
    assert_eq!(released.count(), 50);
    backend.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_backends_at_once_on_a_new_file_make_no_fence_twice() {
    const BACKENDS: u64 = 8;
    const EACH: u64 = 50;
    let dir = TestDir::new();
    let file: Arc<Path> = dir.file().into();
    let tasks = (0..BACKENDS).map(|_| {
        let file = file.clone();
        tokio::spawn(async move {
            let backend = backend(&file);
            let mut fences = Vec::new();
            while fences.len() < EACH as usize {
                let lock = request("k");
                if let Some(fence) = granted(backend.acquire(&lock).await.unwrap()) {
                    fences.push(fence.value());
                    assert_eq!(
                        backend.release(lock.lock_id.into()).await.unwrap(),
                        ReleaseOutcome::Released
                    );
                }
            }
            backend.close().await;
            fences
        })
    });
    let mut fences: Vec<u64> = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        fences.extend(task.await.unwrap());
    }
    fences.sort_unstable();
    assert!(fences.into_iter().eq(1..=BACKENDS * EACH));
}

#[tokio::test]
async fn a_writer_in_the_way_is_waited_out_and_readers_do_not_wait() {
    let dir = TestDir::new();
    let backend = backend(&dir.file());
    let lock = request("k");
    assert!(!backend.is_locked(&lock.key).await.unwrap());
    let other = Connection::open(dir.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut acquired = backend.acquire(&lock);
    assert!(futures_util::poll!(&mut acquired).is_pending());
    assert!(!backend.is_locked(&lock.key).await.unwrap());
    other.execute_batch("COMMIT").unwrap();
    assert!(granted(acquired.await.unwrap()).is_some());
    backend.close().await;
}

/// The file is deleted under two backends: both must go on with the same new one.
#[cfg(unix)]
#[tokio::test]
async fn a_deleted_file_is_noticed() {
    let dir = TestDir::new();
    let (one, two) = (backend(&dir.file()), backend(&dir.file()));
    one.acquire(&request("a")).await.unwrap();
    two.acquire(&request("b")).await.unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert!(granted(one.acquire(&request("k")).await.unwrap()).is_some());
    assert!(granted(two.acquire(&request("k")).await.unwrap()).is_none());
    one.close().await;
    two.close().await;
}

/// With "full", releases need not wait for the disk and go first: acquires get their turn all the same.
#[tokio::test]
async fn acquires_are_not_starved_by_releases() {
    let dir = TestDir::new();
    let backend = durable_backend(&dir.file());
    let lock = request("k");
    let mut acquire = std::pin::pin!(backend.acquire(&lock));
    // Two callers, so that one of them always waits while the other is answered.
    let releases = || async {
        loop {
            backend.release(LockId::generate().into()).await.unwrap();
        }
    };
    let acquired = tokio::select! {
        acquired = &mut acquire => acquired,
        () = releases() => unreachable!(),
        () = releases() => unreachable!(),
    };
    assert!(granted(acquired.unwrap()).is_some());
    backend.close().await;
}
