//! Listing locks, and releasing them by force.

use super::damage::put_lock;
use super::firestore_faults::Fault;
use super::{Server, acquire, key};
use crate::backend::firestore::FirestoreBackend;
use crate::backend::{Backend, LockRecord, LookupQuery, Miss, ReleaseOutcome};
use crate::lock::LockId;

/// Reads all pages. Returns how many locks each had, and the locks.
async fn list(backend: &FirestoreBackend, limit: usize) -> (Vec<usize>, Vec<LockRecord>) {
    let (mut sizes, mut locks) = (Vec::new(), Vec::new());
    let mut after = None;
    loop {
        let page = backend.list(after.as_deref(), limit).await.unwrap();
        sizes.push(page.locks.len());
        locks.extend(page.locks);
        after = page.next;
        if after.is_none() {
            return (sizes, locks);
        }
    }
}

#[tokio::test]
async fn every_live_lock_is_listed_once() {
    let server = Server::start().await;
    let backend = server.backend();
    assert_eq!(list(&backend, 10).await.0, [0]);
    let mut keys = ["b", "a/b", "日本", "a", "__x__", "é", "fence:a"];
    for key in keys {
        acquire(&backend, key, 30_000).await.unwrap().unwrap();
    }
    for expired in ["aa", "c", "d"] {
        put_lock(&backend, expired, LockId::generate(), -5_000).await;
    }
    server.calls();
    for limit in [1, 3, 5, 10, 11, 1_000] {
        let (sizes, locks) = list(&backend, limit).await;
        assert_eq!(server.calls(), vec!["RunQuery"; 10 / limit + 1]);
        assert!(sizes.iter().all(|size| *size <= limit));
        let mut listed: Vec<_> = locks.iter().map(|lock| lock.key.as_str()).collect();
        listed.sort_unstable();
        keys.sort_unstable();
        assert_eq!(listed, keys);
        for lock in locks {
            let query = LookupQuery::Key(key(&lock.key));
            assert!(backend.lookup(&query).await.unwrap() == Some(lock));
        }
        server.calls();
    }
}

#[tokio::test]
async fn a_forced_release_keeps_the_counter() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.backend());
    assert!(!two.force_release(&key("a")).await.unwrap());
    let held = acquire(&one, "a", 30_000).await.unwrap().unwrap();
    server.calls();
    assert!(two.force_release(&key("a")).await.unwrap());
    assert_eq!(server.calls(), ["BatchGetDocuments", "Commit"]);
    assert!(!two.force_release(&key("a")).await.unwrap());
    let released = one.release(held.lock_id.into()).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Missed(Miss::NotFound));
    let next = acquire(&two, "a", 30_000).await.unwrap().unwrap();
    assert_eq!(next.fence.value(), 2);

    // An expired lock is not held by anybody.
    put_lock(&two, "b", LockId::generate(), -5_000).await;
    assert!(!two.force_release(&key("b")).await.unwrap());
}

#[tokio::test]
async fn a_forced_release_is_repeated_if_the_lock_changes_meanwhile() {
    let server = Server::start().await;
    let backend = server.backend();
    acquire(&backend, "a", 30_000).await.unwrap().unwrap();
    server.calls();
    server
        .faults
        .set("Commit", [Fault::Status(9), Fault::Status(10)]);
    assert!(backend.force_release(&key("a")).await.unwrap());
    assert_eq!(server.calls(), ["BatchGetDocuments", "Commit"].repeat(3));
    assert!(!backend.is_locked(&key("a")).await.unwrap());
}
