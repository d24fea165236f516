//! Files that cannot be used: the error is clear, and the file stays as it was.

use std::fs;

use rusqlite::Connection;

use super::*;
use crate::backend::report::Verdict;
use crate::backend::sqlite::file::claim::Claim;
use crate::backend::sqlite::file::system::FileSystem;
use crate::backend::sqlite::file::system::tests::fake;
use crate::error::{Error, ErrorCode};

/// Stands for another process. To SQLite it makes no difference.
pub(super) fn another_connection(path: &Path) -> (Connection, Claim) {
    Claim::open(path, || Connection::open(path))
        .unwrap()
        .unwrap()
}

fn assert_names(error: &Error, path: &Path) {
    let path = path.display().to_string();
    assert!(error.message.contains(&path), "{error:?}");
}

async fn refused(path: &Path) -> Error {
    let backend = backend(path);
    let error = backend.acquire(&request("k")).await.unwrap_err();
    assert!(!error.outcome_unknown);
    // A read gets the same answer.
    let read = backend
        .is_locked(&Key::new("k").unwrap())
        .await
        .unwrap_err();
    assert_eq!((read.code, &read.message), (error.code, &error.message));
    backend.close().await;
    assert_eq!(error.code, ErrorCode::InvalidArgument, "{error:?}");
    assert_names(&error, path);
    error
}

async fn refused_and_untouched(path: &Path, says: &str) {
    let before = fs::read(path).unwrap();
    let error = refused(path).await;
    assert!(error.message.contains(says), "{error:?}");
    assert_eq!(fs::read(path).unwrap(), before);
}

#[tokio::test]
async fn a_network_file_system_is_refused_unless_it_is_permitted() {
    let dir = TestDir::new();
    let mount = dir.path().join("mount");
    fs::create_dir(&mount).unwrap();
    fake(&mount, FileSystem::Network("NFS".to_owned()));
    let file = mount.join("locks.db");
    let error = refused(&file).await;
    assert!(error.message.contains("is on NFS"), "{error:?}");
    assert!(!file.exists());

    let permitted = SqliteBackend::open(SqliteConfig {
        allow_network_file_system: true,
        ..config(&file)
    })
    .unwrap();
    assert!(granted(permitted.acquire(&request("k")).await.unwrap()).is_some());
    let findings = permitted.report().await.unwrap();
    let about = findings.iter().find(|found| found.name == "file system");
    assert_eq!(about.unwrap().verdict, Verdict::Warning);
    permitted.close().await;
    // A file that exists is refused, too.
    refused_and_untouched(&file, "allowNetworkFileSystem").await;
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_refused() {
    let dir = TestDir::new();
    fs::write(dir.file(), "my precious notes\n".repeat(100)).unwrap();
    refused_and_untouched(&dir.file(), "not a SQLite database").await;
    fs::write(dir.file(), "short").unwrap();
    refused_and_untouched(&dir.file(), "not a SQLite database").await;
}

#[tokio::test]
async fn the_database_of_another_program_is_refused() {
    let dir = TestDir::new();
    let db = Connection::open(dir.file()).unwrap();
    db.execute_batch("CREATE TABLE users (id INTEGER PRIMARY KEY)")
        .unwrap();
    drop(db);
    refused_and_untouched(&dir.file(), "another program").await;
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let dir = TestDir::new();
    let first = backend(&dir.file());
    first.acquire(&request("k")).await.unwrap();
    first.close().await;
    let db = Connection::open(dir.file()).unwrap();
    db.pragma_update(None, "user_version", 2).unwrap();
    drop(db);
    refused_and_untouched(&dir.file(), "newer version of SyncGuard (schema 2").await;
}

#[tokio::test]
async fn an_empty_file_is_accepted() {
    let dir = TestDir::new();
    fs::write(dir.file(), "").unwrap();
    let backend = backend(&dir.file());
    assert!(granted(backend.acquire(&request("k")).await.unwrap()).is_some());
    backend.close().await;
}

#[tokio::test]
async fn a_directory_and_a_file_in_a_missing_directory_are_refused() {
    let dir = TestDir::new();
    let error = refused(dir.path()).await;
    assert!(error.message.contains("is a directory"), "{error:?}");
    let error = refused(&dir.path().join("missing").join("locks.db")).await;
    assert!(error.message.contains("does not exist"), "{error:?}");
    assert!(!dir.path().join("missing").exists());
}

#[tokio::test]
async fn a_read_only_file_is_refused() {
    let dir = TestDir::new();
    let first = backend(&dir.file());
    first.acquire(&request("k")).await.unwrap();
    first.close().await;
    let mut permissions = fs::metadata(dir.file()).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(dir.file(), permissions).unwrap();
    refused_and_untouched(&dir.file(), "read-only").await;
}

/// One operation of a shared transaction fails half-way. It leaves no trace, and the others succeed.
#[tokio::test]
async fn a_failed_operation_does_not_affect_the_others() {
    let dir = TestDir::new();
    let backend = backend(&dir.file());
    let first = request("first");
    backend.acquire(&first).await.unwrap();
    let (other, _claim) = another_connection(&dir.file());
    other
        .execute_batch(
            "CREATE TRIGGER trap BEFORE INSERT ON syncguard_locks WHEN NEW.key = 'bad'
             BEGIN SELECT RAISE(ABORT, 'trapped'); END;
             BEGIN IMMEDIATE",
        )
        .unwrap();
    // All of them wait for the other writer, and then share a transaction.
    let (good, bad) = (request("good"), request("bad"));
    let operations = futures_util::future::join3(
        backend.acquire(&good),
        backend.acquire(&bad),
        backend.release(first.lock_id.into()),
    );
    let mut operations = std::pin::pin!(operations);
    assert!(futures_util::poll!(&mut operations).is_pending());
    other.execute_batch("COMMIT").unwrap();
    let (good, bad, released) = operations.await;
    assert_eq!(granted(good.unwrap()).map(|fence| fence.value()), Some(1));
    assert_eq!(released, Ok(ReleaseOutcome::Released));
    let error = bad.unwrap_err();
    assert_eq!(
        (error.code, error.outcome_unknown),
        (ErrorCode::Internal, false)
    );
    let counters: i64 = other
        .query_row(
            "SELECT count(*) FROM syncguard_fence_counters WHERE key_debug = 'bad'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(counters, 0);
    backend.close().await;
}

fn timed_out(error: &Error, path: &Path) {
    assert_eq!(error.code, ErrorCode::NetworkTimeout);
    assert!(!error.outcome_unknown);
    assert_names(error, path);
}

/// The other process stopped in the middle of a write, so the operation certainly had no effect.
#[tokio::test]
async fn a_writer_that_does_not_finish_causes_a_timeout() {
    let dir = TestDir::new();
    let patient = backend(&dir.file());
    let hasty = SqliteBackend::open(SqliteConfig {
        operation_timeout_ms: Some(50),
        ..config(&dir.file())
    })
    .unwrap();
    let lock = request("k");
    patient.acquire(&lock).await.unwrap();
    let stopped = Connection::open(dir.file()).unwrap();
    stopped.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = hasty.release(lock.lock_id.into()).await.unwrap_err();
    timed_out(&error, &dir.file());
    drop(stopped);
    assert_eq!(
        patient.release(lock.lock_id.into()).await.unwrap(),
        ReleaseOutcome::Released
    );
    hasty.close().await;
    patient.close().await;
}

/// The thread is stuck in a system call, so the outcome of the operation is unknown.
#[tokio::test]
async fn a_disk_that_does_not_answer_causes_a_timeout() {
    let dir = TestDir::new();
    let settings = SqliteConfig {
        operation_timeout_ms: Some(100),
        ..config(&dir.file())
    };
    let worker = Worker::new(Access::Write, settings.check().unwrap());
    // Creating the file may take longer than the timeout.
    while worker.run(false, |_, _| Ok(())).await.is_err() {}
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let error = worker
        .run(false, move |_, _| {
            let _ = ended.recv();
            Ok(())
        })
        .await
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::NetworkTimeout);
    assert!(error.outcome_unknown);
    assert_names(&error, &dir.file());
    drop(end);
    worker.close().await;
}

#[tokio::test]
async fn a_file_that_another_process_locks_cannot_be_opened_in_time() {
    let dir = TestDir::new();
    let backend = SqliteBackend::open(SqliteConfig {
        connect_timeout_ms: Some(50),
        ..config(&dir.file())
    })
    .unwrap();
    let (exclusive, _claim) = another_connection(&dir.file());
    exclusive.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = backend.acquire(&request("k")).await.unwrap_err();
    timed_out(&error, &dir.file());
    drop(exclusive);
    assert!(granted(backend.acquire(&request("k")).await.unwrap()).is_some());
    backend.close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_open_elsewhere_in_the_process_is_refused() {
    let dir = TestDir::new();
    let first = backend(&dir.file());
    first.acquire(&request("k")).await.unwrap();
    first.close().await;
    let other = fs::File::open(dir.file()).unwrap();
    let error = refused(&dir.file()).await;
    assert!(error.message.contains("another copy"), "{error:?}");
    drop(other);
    let backend = backend(&dir.file());
    assert!(backend.is_locked(&Key::new("k").unwrap()).await.unwrap());
    backend.close().await;
}
