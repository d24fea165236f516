//! Operations that run on the caller's thread, and those that are left to the backend's thread.

use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use futures_util::future::join;
use futures_util::poll;
use rusqlite::Connection;

use super::failures::another_connection;
use super::*;
use crate::backend::sqlite::file::LockFile;
use crate::backend::sqlite::store::Sql;
use crate::error::ErrorCode;

/// Writes something, and returns the thread that did it.
fn count(db: &Connection, _: u64) -> Sql<ThreadId> {
    db.execute(
        "INSERT INTO syncguard_fence_counters VALUES ('written', 1, '')
         ON CONFLICT DO UPDATE SET fence = fence + 1",
        [],
    )?;
    Ok(thread::current().id())
}

async fn runs_here(backend: &SqliteBackend) -> bool {
    backend.connections.writer.run(false, count).await.unwrap() == thread::current().id()
}

/// The backend's thread may still clean up after its last answer, and callers wait a while after a crowd.
async fn until_it_runs_here(backend: &SqliteBackend) {
    let started = Instant::now();
    while !runs_here(backend).await {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "always left to the thread"
        );
    }
}

async fn ready() -> (TestDir, SqliteBackend) {
    let dir = TestDir::new();
    let backend = backend(&dir.file());
    until_it_runs_here(&backend).await;
    (dir, backend)
}

#[tokio::test]
async fn a_lone_caller_runs_most_operations_itself() {
    let dir = TestDir::new();
    let backend = backend(&dir.file());
    assert!(
        !runs_here(&backend).await,
        "the file is not opened where it could block"
    );
    until_it_runs_here(&backend).await;
    let mut here = 0;
    for _ in 0..500 {
        here += u32::from(runs_here(&backend).await);
    }
    assert!((250..=496).contains(&here), "{here}");
    backend.close().await;
    let closed = backend
        .connections
        .writer
        .run(false, count)
        .await
        .unwrap_err();
    assert_eq!(closed.code, ErrorCode::InvalidArgument);
}

#[tokio::test]
async fn operations_that_wait_for_the_disk_are_left_to_the_thread() {
    let dir = TestDir::new();
    let backend = durable_backend(&dir.file());
    for _ in 0..10 {
        until_it_runs_here(&backend).await;
        let on = backend.connections.writer.run(true, count).await.unwrap();
        assert_ne!(on, thread::current().id());
    }
    backend.close().await;
}

/// The first commit in a WAL that starts again waits for the disk.
#[tokio::test]
async fn a_wal_that_starts_again_is_left_to_the_thread() {
    let (dir, backend) = ready().await;
    let (other, _claim) = another_connection(&dir.file());
    for _ in 0..10 {
        until_it_runs_here(&backend).await;
        other
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .unwrap();
        assert!(!runs_here(&backend).await);
    }
    backend.close().await;
}

#[tokio::test]
async fn a_long_wal_is_left_to_the_thread_which_writes_it_back() {
    let (dir, backend) = ready().await;
    let Ok(file) = LockFile::open(&config(&dir.file()).check().unwrap()) else {
        panic!("not opened")
    };
    assert!(file.only_appends());
    file.db
        .execute_batch(
            "CREATE TABLE ballast (bytes);
             INSERT INTO ballast VALUES (zeroblob(4096 * 4000));",
        )
        .unwrap();
    assert!(!file.only_appends());
    assert!(!runs_here(&backend).await);
    until_it_runs_here(&backend).await;
    assert!(file.only_appends(), "it was written back, and starts again");
    drop(file);
    backend.close().await;
}

/// Not even for one that stopped in the middle of a write.
#[tokio::test]
async fn a_caller_never_waits_for_another_writer() {
    let (dir, backend) = ready().await;
    let (other, _claim) = another_connection(&dir.file());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (one, two) = (request("one"), request("two"));
    let mut both = std::pin::pin!(join(backend.acquire(&one), backend.acquire(&two)));
    let asked = Instant::now();
    assert!(poll!(&mut both).is_pending());
    assert!(
        asked.elapsed() < Duration::from_secs(1),
        "the caller waited"
    );
    tokio::time::sleep(Duration::from_millis(20)).await;
    other.execute_batch("COMMIT").unwrap();
    let (one, two) = both.await;
    assert!(granted(one.unwrap()).is_some() && granted(two.unwrap()).is_some());
    assert!(
        !runs_here(&backend).await,
        "two at once are a crowd, whose operations are faster in one transaction"
    );
    until_it_runs_here(&backend).await;
    backend.close().await;
}

/// The runtime's threads serve the connections of other backends.
#[tokio::test]
async fn tasks_of_the_runtime_leave_operations_to_the_thread() {
    let dir = TestDir::new();
    let backend = Arc::new(backend(&dir.file()));
    for _ in 0..10 {
        until_it_runs_here(&backend).await;
        let shared = Arc::clone(&backend);
        let here = tokio::spawn(async move { runs_here(&shared).await });
        assert!(!here.await.unwrap());
    }
    backend.close().await;
}

#[tokio::test]
async fn an_operation_that_fails_here_leaves_no_trace_and_is_repeated_by_the_thread() {
    let (_dir, backend) = ready().await;
    let written = |db: &Connection, _| {
        let count = "SELECT fence FROM syncguard_fence_counters WHERE fence_key = 'written'";
        Ok(db.query_row(count, [], |row| row.get::<_, i64>(0))?)
    };
    let before = backend
        .connections
        .reader
        .run(false, written)
        .await
        .unwrap();
    let here = thread::current().id();
    let error = backend
        .connections
        .writer
        .run(false, move |db, now_ms| {
            let tried_on = count(db, now_ms)?;
            if tried_on == here {
                return Err(rusqlite::Error::InvalidQuery.into());
            }
            db.execute("INSERT INTO nowhere VALUES (1)", [])?;
            Ok(())
        })
        .await
        .unwrap_err();
    assert_eq!(
        (error.code, error.outcome_unknown),
        (ErrorCode::Internal, false)
    );
    assert!(error.details.iter().any(|(name, _)| *name == "sqliteCode"));
    assert_eq!(
        backend
            .connections
            .reader
            .run(false, written)
            .await
            .unwrap(),
        before
    );
    until_it_runs_here(&backend).await;
    backend.close().await;
}
