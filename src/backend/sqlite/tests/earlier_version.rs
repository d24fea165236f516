//! A version of this package that does not know shared records, on the same file: its statements, as it
//! runs them. They are not to change.

use std::fs;
use std::time::Duration;

use futures_util::future::join_all;
use rusqlite::{Connection, OptionalExtension, params};

use super::failures::another_connection;
use super::*;
use crate::backend::sqlite::file::claim::Claim;
use crate::error::ErrorCode;
use crate::lock::share::UNLIMITED;
use crate::lock::time::system_now_ms;

const CREATE: &str = "
PRAGMA journal_mode = WAL;
BEGIN EXCLUSIVE;
CREATE TABLE syncguard_locks (
  key TEXT PRIMARY KEY,
  lock_id TEXT NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  acquired_at_ms INTEGER NOT NULL,
  fence TEXT NOT NULL,
  user_key TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX syncguard_locks_lock_id ON syncguard_locks (lock_id);
CREATE TABLE syncguard_fence_counters (
  fence_key TEXT PRIMARY KEY,
  fence INTEGER NOT NULL DEFAULT 0,
  key_debug TEXT
) STRICT, WITHOUT ROWID;
PRAGMA application_id = 1397189739;
PRAGMA user_version = 1;
COMMIT";
const HOLDER: &str = "SELECT expires_at_ms, acquired_at_ms, * FROM syncguard_locks WHERE key = ?1";
const REBASE: &str = "
UPDATE syncguard_locks SET
  expires_at_ms = ?2 + (expires_at_ms - acquired_at_ms),
  acquired_at_ms = ?2
WHERE key = ?1
RETURNING expires_at_ms";
const LAST_FENCE: &str = "SELECT fence FROM syncguard_fence_counters WHERE fence_key = ?1";
const COUNT_FENCE: &str = "
INSERT INTO syncguard_fence_counters (fence_key, fence, key_debug) VALUES (?1, ?2, ?3)
ON CONFLICT (fence_key) DO UPDATE SET fence = excluded.fence";
const ACQUIRE: &str = "
INSERT INTO syncguard_locks (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (key) DO UPDATE SET
  lock_id = excluded.lock_id,
  expires_at_ms = excluded.expires_at_ms,
  acquired_at_ms = excluded.acquired_at_ms,
  fence = excluded.fence,
  user_key = excluded.user_key";
const REMOVE: &str = "DELETE FROM syncguard_locks WHERE lock_id = ?1 RETURNING expires_at_ms";
const EXTEND: &str = "
UPDATE syncguard_locks SET
  expires_at_ms = ?3,
  acquired_at_ms = min(acquired_at_ms, ?2)
WHERE lock_id = ?1 AND expires_at_ms > ?4";
const SWEEP: &str = "
DELETE FROM syncguard_locks WHERE expires_at_ms <= ?3 AND key IN (
  SELECT key FROM syncguard_locks WHERE key > ?1 ORDER BY key LIMIT ?2
)";

const KEY: &str = "k";
const TOLERANCE: i64 = 1000;
const TTL: u64 = 60_000;

/// A process of the earlier version. Its time is an argument, so that nobody has to wait.
struct Earlier {
    db: Connection,
    _claim: Claim,
}

impl Earlier {
    fn open(path: &Path) -> Self {
        let (db, _claim) = another_connection(path);
        db.busy_timeout(Duration::from_secs(60)).unwrap();
        let tables = "SELECT count(*) FROM sqlite_schema";
        if db
            .query_row(tables, [], |row| row.get::<_, i64>(0))
            .unwrap()
            == 0
        {
            db.execute_batch(CREATE).unwrap();
        }
        Self { db, _claim }
    }

    fn acquire(&self, lock_id: LockId, now_ms: u64) -> Option<u64> {
        let now = i64::try_from(now_ms).unwrap();
        self.db.execute_batch("BEGIN IMMEDIATE").unwrap();
        let held = self
            .db
            .prepare_cached(HOLDER)
            .unwrap()
            .query_row([KEY], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
            })
            .optional()
            .unwrap();
        let granted = match held {
            Some((expires_at_ms, acquired_at_ms)) if expires_at_ms + TOLERANCE > now => {
                if acquired_at_ms > now + TOLERANCE {
                    let rebase = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
                    self.db
                        .query_row(REBASE, params![KEY, now], rebase)
                        .unwrap();
                }
                None
            }
            _ => Some(self.write(lock_id, now)),
        };
        self.db.execute_batch("COMMIT").unwrap();
        granted
    }

    fn write(&self, lock_id: LockId, now: i64) -> u64 {
        let counter = format!("fence:{KEY}");
        let last: Option<i64> = self
            .db
            .prepare_cached(LAST_FENCE)
            .unwrap()
            .query_row([&counter], |row| row.get(0))
            .optional()
            .unwrap();
        let fence = last.unwrap_or(0) + 1;
        let mut count = self.db.prepare_cached(COUNT_FENCE).unwrap();
        count.execute(params![counter, fence, KEY]).unwrap();
        let until = now + i64::try_from(TTL).unwrap();
        let text = format!("{fence:015}");
        let row = params![KEY, lock_id.as_str(), until, now, text, KEY];
        self.db
            .prepare_cached(ACQUIRE)
            .unwrap()
            .execute(row)
            .unwrap();
        fence.unsigned_abs()
    }

    fn release(&self, lock_id: LockId) -> bool {
        let mut remove = self.db.prepare_cached(REMOVE).unwrap();
        let removed = remove.query_row([lock_id.as_str()], |row| row.get::<_, i64>(0));
        removed.optional().unwrap().is_some()
    }

    fn extend(&self, lock_id: LockId, now_ms: u64) -> bool {
        let now = i64::try_from(now_ms).unwrap();
        let mut extend = self.db.prepare_cached(EXTEND).unwrap();
        let columns = params![lock_id.as_str(), now, now + 1, now - TOLERANCE];
        // A lock that does not match has expired, if it is there.
        extend.execute(columns).unwrap() > 0 || self.release(lock_id)
    }

    fn sweep(&self, now_ms: u64) {
        let expired = i64::try_from(now_ms).unwrap() - TOLERANCE;
        self.db.execute(SWEEP, params!["", 512, expired]).unwrap();
    }

    fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        self.db.query_row(&sql, [], |row| row.get(0)).unwrap()
    }
}

/// Returns when all holders of the key have expired.
fn over() -> u64 {
    system_now_ms() + TTL + 2000
}

fn reader() -> AcquireRequest {
    AcquireRequest {
        access: crate::lock::Access::Shared { limit: UNLIMITED },
        ..request(KEY)
    }
}

async fn shared(backend: &SqliteBackend) -> AcquireRequest {
    let reader = reader();
    assert!(granted(backend.acquire(&reader).await.unwrap()).is_some());
    reader
}

async fn release(backend: &SqliteBackend, lock: &AcquireRequest) -> bool {
    backend.release(lock.lock_id.into()).await.unwrap() == ReleaseOutcome::Released
}

async fn extend(backend: &SqliteBackend, lock: &AcquireRequest) -> bool {
    let outcome = backend.extend(lock.lock_id, ttl(60_000)).await.unwrap();
    matches!(outcome, ExtendOutcome::Extended { .. })
}

#[tokio::test]
async fn both_versions_exclude_each_other_and_leave_each_others_locks_alone() {
    let dir = TestDir::new();
    let earlier = Earlier::open(&dir.file());
    let own = LockId::generate();
    // These statements stay prepared while the table of holders is added.
    assert_eq!(earlier.acquire(own, system_now_ms()), Some(1));
    assert!(earlier.extend(own, system_now_ms()));

    let backend = backend(&dir.file());
    assert!(granted(backend.acquire(&reader()).await.unwrap()).is_none());
    assert!(granted(backend.acquire(&request(KEY)).await.unwrap()).is_none());
    assert!(earlier.release(own));

    let (one, two) = (shared(&backend).await, shared(&backend).await);
    let now = system_now_ms();
    assert_eq!(earlier.acquire(own, now), None);
    for holder in [&one, &two] {
        assert!(!earlier.release(holder.lock_id));
        assert!(!earlier.extend(holder.lock_id, now));
    }
    earlier.sweep(now);
    assert!(extend(&backend, &one).await && release(&backend, &one).await);
    assert_eq!(earlier.acquire(own, now), None);
    assert!(release(&backend, &two).await);
    assert_eq!(earlier.acquire(own, now), Some(4));
    assert!(!release(&backend, &one).await && !extend(&backend, &two).await);
    assert!(backend.is_locked(&one.key).await.unwrap());
    assert!(earlier.release(own));
    backend.close().await;
}

#[tokio::test]
async fn holders_of_a_record_that_an_earlier_version_took_or_removed_are_nothing() {
    for takes in [true, false] {
        let dir = TestDir::new();
        let earlier = Earlier::open(&dir.file());
        let backend = backend(&dir.file());
        let (one, two) = (shared(&backend).await, shared(&backend).await);
        let own = LockId::generate();
        assert_eq!(earlier.acquire(own, over() - 10_000), None);
        if takes {
            assert_eq!(earlier.acquire(own, over()), Some(3));
        } else {
            earlier.sweep(over() - 10_000);
            assert_eq!(earlier.count("syncguard_locks"), 1);
            earlier.sweep(over());
        }
        // The rows say that the holders are live, but their record is gone.
        assert_eq!(earlier.count("syncguard_holders"), 2);
        assert!(!release(&backend, &one).await && !extend(&backend, &two).await);
        let by_id = LookupQuery::LockId(two.lock_id);
        assert!(backend.lookup(&by_id).await.unwrap().is_none());
        assert_eq!(backend.is_locked(&one.key).await.unwrap(), takes);
        if takes {
            assert!(granted(backend.acquire(&reader()).await.unwrap()).is_none());
            assert!(earlier.release(own));
        }
        let AcquireOutcome::Acquired { share, .. } = backend.acquire(&reader()).await.unwrap()
        else {
            panic!("not acquired")
        };
        assert_eq!(share.map(|share| (share.slot, share.holders)), Some((0, 1)));
        backend.close().await;
    }
}

#[tokio::test]
async fn a_record_with_only_a_mark_is_free_for_an_earlier_version() {
    let dir = TestDir::new();
    let earlier = Earlier::open(&dir.file());
    let backend = backend(&dir.file());
    let reader_one = shared(&backend).await;
    let mark = LockId::generate();
    let writer = AcquireRequest {
        mark: Some(mark),
        ..request(KEY)
    };
    assert!(granted(backend.acquire(&writer).await.unwrap()).is_none());
    assert!(release(&backend, &reader_one).await);
    let own = LockId::generate();
    assert_eq!(earlier.acquire(own, system_now_ms()), Some(2));
    backend.unmark(&writer.key, mark).await.unwrap();
    assert!(backend.is_locked(&writer.key).await.unwrap());
    assert!(earlier.release(own));
    assert!(granted(backend.acquire(&writer).await.unwrap()).is_some());
    backend.close().await;
}

/// The earlier version gives the record its full length again. The holders must not outlive it.
#[tokio::test]
async fn an_earlier_version_may_be_the_one_that_notices_a_clock_set_back() {
    let dir = TestDir::new();
    let earlier = Earlier::open(&dir.file());
    let backend = backend(&dir.file());
    let holder = shared(&backend).await;
    let own = LockId::generate();
    let past = system_now_ms() - 10_000_000;
    assert_eq!(earlier.acquire(own, past), None);
    assert_eq!(earlier.acquire(own, past + TTL - 1000), None);
    assert_eq!(earlier.acquire(own, past + TTL + 2000), Some(2));
    assert!(!release(&backend, &holder).await);
    assert!(earlier.release(own));
    backend.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_open_an_earlier_file_at_once_add_the_table_together() {
    const BACKENDS: u32 = 8;
    for _ in 0..10 {
        let dir = TestDir::new();
        let earlier = Earlier::open(&dir.file());
        let tasks = (0..BACKENDS).map(|_| {
            let path = dir.file();
            tokio::spawn(async move {
                let backend = backend(&path);
                let reader = reader();
                let outcome = backend.acquire(&reader).await.unwrap();
                let AcquireOutcome::Acquired { share, .. } = outcome else {
                    panic!("not acquired")
                };
                assert!(backend.is_locked(&reader.key).await.unwrap());
                backend.close().await;
                share.unwrap().slot
            })
        });
        let tasks: Vec<_> = tasks.collect();
        for _ in 0..20 {
            earlier.sweep(system_now_ms());
        }
        let mut slots: Vec<u32> = Vec::new();
        for slot in join_all(tasks).await {
            slots.push(slot.unwrap());
        }
        slots.sort_unstable();
        assert!(slots.into_iter().eq(0..BACKENDS));
        let found: String = earlier
            .db
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(found, "ok");
    }
}

#[tokio::test]
async fn a_read_only_earlier_file_is_refused_and_stays_as_it_was() {
    let dir = TestDir::new();
    drop(Earlier::open(&dir.file()));
    let before = fs::read(dir.file()).unwrap();
    let mut permissions = fs::metadata(dir.file()).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(dir.file(), permissions).unwrap();
    let backend = backend(&dir.file());
    for error in [
        backend.acquire(&reader()).await.unwrap_err(),
        backend.is_locked(&reader().key).await.unwrap_err(),
    ] {
        assert_eq!(error.code, ErrorCode::InvalidArgument);
        assert!(error.message.contains("is read-only"), "{error:?}");
    }
    assert_eq!(fs::read(dir.file()).unwrap(), before);
    backend.close().await;
}

/// A process that was stopped in the middle of a write keeps the table from being added.
#[tokio::test]
async fn adding_the_table_waits_for_another_writer() {
    let dir = TestDir::new();
    let earlier = Earlier::open(&dir.file());
    earlier.db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let impatient = SqliteBackend::open(SqliteConfig {
        connect_timeout_ms: Some(50),
        operation_timeout_ms: Some(50),
        ..config(&dir.file())
    })
    .unwrap();
    let error = impatient.acquire(&reader()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NetworkTimeout);
    assert!(error.message.contains("stayed busy"), "{error:?}");
    let patient = backend(&dir.file());
    let wanted = reader();
    let mut acquired = patient.acquire(&wanted);
    assert!(futures_util::poll!(&mut acquired).is_pending());
    earlier.db.execute_batch("COMMIT").unwrap();
    assert!(granted(acquired.await.unwrap()).is_some());
    impatient.close().await;
    patient.close().await;
}

/// Another program has removed the table while it was in use.
#[tokio::test]
async fn a_table_that_was_removed_is_added_again() {
    let dir = TestDir::new();
    let earlier = Earlier::open(&dir.file());
    let backend = backend(&dir.file());
    shared(&backend).await;
    earlier
        .db
        .execute_batch("DROP TABLE syncguard_holders; DELETE FROM syncguard_locks")
        .unwrap();
    // An operation on the backend's thread fails, and then the file is opened again.
    if let Err(error) = backend.acquire(&reader()).await {
        assert_eq!(error.code, ErrorCode::Internal);
    }
    shared(&backend).await;
    backend.close().await;
}
