mod default;
mod earlier_version;
mod failures;
mod handover;
// On other systems the file never counts as local, so callers run no operations: see `file::system`.
#[cfg(unix)]
mod on_callers_thread;
mod shared;
mod sharing;
mod store;
mod watch;

use std::path::{Path, PathBuf};

use super::thread::{Access, Worker};
use super::*;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, LookupQuery, ReleaseOutcome,
};
use crate::lock::{Fence, Key, LockId, Ttl};

/// A directory for one test, which is removed afterwards.
pub(super) struct TestDir(PathBuf);

impl TestDir {
    pub(super) fn new() -> Self {
        let name = format!("syncguard-test-{:032x}", rand::random::<u128>());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.join("locks.db")
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A configuration that does not wait for the disk, because the tests do not cut the power.
fn config(path: &Path) -> SqliteConfig {
    SqliteConfig {
        path: Some(path.to_owned()),
        state_directory: None,
        allow_network_file_system: false,
        durability: Durability::Normal,
        // Longer than any of these tests takes, even on a busy machine.
        connect_timeout_ms: Some(60_000),
        operation_timeout_ms: Some(60_000),
    }
}

fn backend(path: &Path) -> SqliteBackend {
    SqliteBackend::open(config(path)).unwrap()
}

fn durable_backend(path: &Path) -> SqliteBackend {
    SqliteBackend::open(SqliteConfig {
        durability: Durability::Full,
        ..config(path)
    })
    .unwrap()
}

fn ttl(ms: u32) -> Ttl {
    Ttl::from_number(f64::from(ms)).unwrap()
}

fn request(key: &str) -> AcquireRequest {
    AcquireRequest {
        key: Key::new(key).unwrap(),
        lock_id: LockId::generate(),
        ttl: ttl(60_000),
        label: None,
        caller: 0,
        access: crate::lock::Access::Exclusive,
        mark: None,
    }
}

fn granted(outcome: AcquireOutcome) -> Option<Fence> {
    match outcome {
        AcquireOutcome::Acquired { fence, .. } => Some(fence),
        AcquireOutcome::Locked(_) => None,
    }
}

#[tokio::test]
async fn a_lock_from_acquire_to_release() {
    let dir = TestDir::new();
    let backend = backend(&dir.file());
    let lock = request("k");
    assert!(!backend.is_locked(&lock.key).await.unwrap());
    let fence = granted(backend.acquire(&lock).await.unwrap()).unwrap();
    assert_eq!(fence.value(), 1);
    assert!(backend.is_locked(&lock.key).await.unwrap());
    assert!(granted(backend.acquire(&request("k")).await.unwrap()).is_none());
    let found = backend
        .lookup(&LookupQuery::LockId(lock.lock_id))
        .await
        .unwrap()
        .unwrap();
    assert!(found.lock_id == lock.lock_id && found.fence == fence && found.key == "k");
    let ExtendOutcome::Extended { expires_at_ms } =
        backend.extend(lock.lock_id, ttl(90_000)).await.unwrap()
    else {
        panic!("not extended")
    };
    assert!(expires_at_ms > found.expires_at_ms);
    assert_eq!(
        backend.release(lock.lock_id.into()).await.unwrap(),
        ReleaseOutcome::Released
    );
    assert!(!backend.is_locked(&lock.key).await.unwrap());
    backend.close().await;
}

#[tokio::test]
async fn close_leaves_one_file_and_a_new_backend_continues_the_fences() {
    let dir = TestDir::new();
    for expected in 1..=3 {
        let backend = backend(&dir.file());
        let lock = request("k");
        let fence = granted(backend.acquire(&lock).await.unwrap()).unwrap();
        assert_eq!(fence.value(), expected);
        assert!(backend.is_locked(&lock.key).await.unwrap());
        backend.release(lock.lock_id.into()).await.unwrap();
        backend.close().await;
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(backend.acquire(&lock).await.is_err());
    }
}

#[tokio::test]
async fn a_backend_that_is_never_used_creates_no_file() {
    let dir = TestDir::new();
    backend(&dir.file()).close().await;
    assert!(!dir.file().exists());
}

/// The WAL is written back and reused, so that it does not grow with the number of operations.
#[tokio::test]
async fn the_wal_stays_small() {
    let dir = TestDir::new();
    let backend = backend(&dir.file());
    let mut largest = 0;
    for _ in 0..4000 {
        let lock = request("k");
        backend.acquire(&lock).await.unwrap();
        backend.release(lock.lock_id.into()).await.unwrap();
        let wal = std::fs::metadata(dir.path().join("locks.db-wal")).unwrap();
        largest = largest.max(wal.len());
    }
    // A WAL that is never written back would grow to 80 MB.
    assert!(largest < 20 * 1024 * 1024, "{largest}");
    backend.close().await;
}

#[tokio::test]
async fn expired_locks_do_not_pile_up() {
    let dir = TestDir::new();
    let backend = backend(&dir.file());
    for round in 0..3 {
        let locks: Vec<_> = (0..1000)
            .map(|n| request(&format!("{round}:{n}")))
            .collect();
        futures_util::future::join_all(locks.iter().map(|lock| backend.acquire(lock))).await;
        let db = rusqlite::Connection::open(dir.file()).unwrap();
        db.execute("UPDATE syncguard_locks SET expires_at_ms = 0", [])
            .unwrap();
    }
    // A sweep looks at one window, and every 256 operations cause one.
    let lock = request("k");
    for _ in 0..2000 {
        backend.acquire(&lock).await.unwrap();
    }
    let db = rusqlite::Connection::open(dir.file()).unwrap();
    let left: i64 = db
        .query_row("SELECT count(*) FROM syncguard_locks", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 1);
    backend.close().await;
}

/// With full durability the disk has a fence before the caller has it.
#[tokio::test]
async fn only_operations_that_sync_wait_for_the_disk() {
    let dir = TestDir::new();
    let worker = Worker::new(Access::Write, config(&dir.file()).check().unwrap());
    let level = |syncs| {
        worker.run(syncs, |db, _| {
            let level = db.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))?;
            Ok(level)
        })
    };
    for _ in 0..2 {
        assert_eq!(level(true).await, Ok(2)); // FULL
        assert_eq!(level(false).await, Ok(1)); // NORMAL
    }
    worker.close().await;
}
