//! Several connections to one file. To SQLite it makes no difference whether they are in one process.

use std::sync::Arc;

use futures_util::future::join_all;
use rusqlite::Connection;

use super::*;

#[tokio::test]
async fn operations_in_one_transaction_get_the_results_of_single_ones() {
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
async fn backends_that_start_together_on_a_new_file_issue_no_fence_twice() {
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
async fn a_write_waits_for_another_writer_and_a_read_does_not() {
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

/// The file is deleted while two backends use it. Both must continue with the same new file.
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

/// With full durability, releases go first because they need not wait for the disk.
#[tokio::test]
async fn acquires_are_not_starved_by_releases() {
    let dir = TestDir::new();
    let backend = durable_backend(&dir.file());
    let lock = request("k");
    let mut acquire = std::pin::pin!(backend.acquire(&lock));
    // Two callers, so that one operation is always waiting while another is answered.
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
