//! Requests that share a transaction. A problem of one request does not affect the others.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

use super::server::{Server, Tables, request};
use crate::backend::postgres::PostgresBackend;
use crate::backend::postgres::sql::ADVISORY_LOCK_CLASS;
use crate::backend::{AcquireOutcome, AcquireRequest, Backend, Miss, ReleaseOutcome};
use crate::error::{ErrorCode, Result};

const REQUESTS: usize = 40;
/// The index of the one request that another session blocks.
const BLOCKED: usize = 20;
/// Far longer than the requests take, far shorter than the operation timeout.
const TIMEOUT: Duration = Duration::from_secs(2);

fn requests(prefix: &str) -> Vec<AcquireRequest> {
    let key = |index| format!("{prefix} \"it's\" \\ {{{index}}}");
    (0..REQUESTS)
        .map(|index| request(&key(index), 60_000))
        .collect()
}

async fn acquire_all(
    backend: &PostgresBackend,
    requests: &[AcquireRequest],
) -> Vec<Result<AcquireOutcome>> {
    join_all(requests.iter().map(|request| backend.acquire(request))).await
}

async fn release_all(
    backend: &PostgresBackend,
    requests: &[AcquireRequest],
) -> Vec<Result<ReleaseOutcome>> {
    join_all(
        requests
            .iter()
            .map(|request| backend.release(request.lock_id.into())),
    )
    .await
}

fn is_first(outcome: &Result<AcquireOutcome>) -> bool {
    matches!(outcome, Ok(AcquireOutcome::Acquired { fence, .. }) if fence.value() == 1)
}

/// Returns how many transactions have written the rows of the table.
async fn transactions(server: &Server, table: &str) -> usize {
    let sql = format!("SELECT count(DISTINCT xmin::text) FROM {table}");
    server.sql(&sql).await.unwrap().parse().unwrap()
}

async fn expire_all(server: &Server, locks: &str) {
    server
        .sql(&format!("UPDATE {locks} SET expires_at_ms = 1"))
        .await;
}

/// Locks the row of this lock in another session.
async fn lock_row(server: &Server, locks: &str, request: &AcquireRequest) -> Client {
    let lock_id = request.lock_id.as_str();
    server
        .begin_transaction(&format!(
            "SELECT FROM {locks} WHERE lock_id = '{lock_id}' FOR UPDATE"
        ))
        .await
}

async fn assert_only_one_waits<T: Debug>(
    operations: impl Iterator<Item = impl Future<Output = Result<T>>>,
) {
    let operations = operations.enumerate().map(async |(index, operation)| {
        let outcome = timeout(TIMEOUT, operation).await;
        assert_eq!(outcome.is_err(), index == BLOCKED, "{outcome:?}");
        assert!(outcome.is_err() || outcome.is_ok_and(|outcome| outcome.is_ok()));
    });
    join_all(operations).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_share_transactions() {
    let server = Server::shared().await;
    for prepare in [true, false] {
        let requests = requests("k");
        // Requests that wait at the same time share a transaction. On a busy machine they may arrive one
        // by one, so one good try out of several is enough.
        let mut tries = 1..=10;
        let Tables {
            backend,
            locks,
            fences,
        } = loop {
            let tables = server.backend(|config| config.prepare = prepare).await;
            let outcomes = acquire_all(&tables.backend, &requests).await;
            assert!(outcomes.iter().all(is_first), "{outcomes:?}");
            let used = [
                transactions(&server, &tables.locks).await,
                transactions(&server, &tables.fences).await,
            ];
            if used.iter().all(|used| *used < REQUESTS / 2) {
                break tables;
            }
            assert!(tries.next().is_some(), "{used:?} transactions");
        };
        let stored = server
            .sql(&format!(
                "SELECT count(*) FROM {locks} JOIN {fences} ON fence_key = 'fence:' || key \
                 WHERE lpad({fences}.fence::text, 15, '0') = {locks}.fence \
                 AND key_debug = user_key AND expires_at_ms - acquired_at_ms = 60000"
            ))
            .await;
        assert_eq!(stored, Some(REQUESTS.to_string()));

        let again: Vec<_> = requests
            .iter()
            .map(|taken| request(taken.key.as_str(), 1000))
            .collect();
        for outcome in acquire_all(&backend, &again).await {
            let Ok(AcquireOutcome::Locked(Some(holder))) = outcome else {
                panic!("{outcome:?}");
            };
            assert!(holder.free_in > Duration::from_secs(50) && holder.expires_at_ms > 0);
        }
        for outcome in release_all(&backend, &requests).await {
            assert_eq!(outcome.unwrap(), ReleaseOutcome::Released);
        }
        for outcome in release_all(&backend, &requests).await {
            assert_eq!(outcome.unwrap(), ReleaseOutcome::Missed(Miss::NotFound));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_locks_are_replaced_and_not_released() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let old = requests("k");
    acquire_all(&t.backend, &old).await;
    expire_all(&server, &t.locks).await;
    for outcome in release_all(&t.backend, &old).await {
        assert_eq!(outcome.unwrap(), ReleaseOutcome::Missed(Miss::Expired));
    }
    for outcome in acquire_all(&t.backend, &requests("k")).await {
        let Ok(AcquireOutcome::Acquired { fence, .. }) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(fence.value(), 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_another_session_acquires_delays_only_its_own_request() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let requests = requests("k");
    let contended = format!("hashtext($${}$$)", requests[BLOCKED].key.as_str());
    let advisory_lock = format!("SELECT pg_advisory_xact_lock({ADVISORY_LOCK_CLASS}, {contended})");
    let transaction = server.begin_transaction(&advisory_lock).await;

    assert_only_one_waits(requests.iter().map(|request| t.backend.acquire(request))).await;
    drop(transaction);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_another_session_locks_delays_only_its_own_request() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let requests = requests("k");
    acquire_all(&t.backend, &requests).await;
    let transaction = lock_row(&server, &t.locks, &requests[BLOCKED]).await;
    assert_only_one_waits(
        requests
            .iter()
            .map(|request| t.backend.release(request.lock_id.into())),
    )
    .await;
    drop(transaction);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_row_that_another_session_locks_delays_only_its_own_request() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let old = requests("k");
    acquire_all(&t.backend, &old).await;
    expire_all(&server, &t.locks).await;
    let transaction = lock_row(&server, &t.locks, &old[BLOCKED]).await;
    let requests = requests("k");
    assert_only_one_waits(requests.iter().map(|request| t.backend.acquire(request))).await;
    drop(transaction);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_of_a_batch_gets_its_own_error() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let requests = requests("k");
    // One counter is at its end, and the table refuses one key.
    server
        .sql(&format!(
            "INSERT INTO {} VALUES ('fence:' || $${}$$, 900000000000000); \
             ALTER TABLE {} ADD CHECK (key <> $${}$$)",
            t.fences,
            requests[11].key.as_str(),
            t.locks,
            requests[22].key.as_str()
        ))
        .await;
    let outcomes = acquire_all(&t.backend, &requests).await;
    for (index, outcome) in outcomes.iter().enumerate() {
        match index {
            11 => assert_eq!(outcome.as_ref().unwrap_err().code, ErrorCode::Internal),
            22 => assert_eq!(
                outcome.as_ref().unwrap_err().code,
                ErrorCode::InvalidArgument
            ),
            _ => assert!(is_first(outcome), "{outcome:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_batches_do_not_delay_later_requests() {
    let server = Server::start().await;
    let t = server.backend(|config| config.pool_size = Some(40)).await;
    let held = requests("held");
    acquire_all(&t.backend, &held).await;
    let stuck: Vec<_> = ["a", "b", "c"].into_iter().flat_map(requests).collect();
    // Connect now: while a table is locked, statements cannot be prepared.
    join_all(held.iter().map(|one| t.backend.is_locked(&one.key))).await;
    let transaction = server
        .begin_transaction(&format!("LOCK TABLE {}", t.fences))
        .await;
    let acquires = acquire_all(&t.backend, &stuck);
    let releases = timeout(TIMEOUT, release_all(&t.backend, &held));
    tokio::select! {
        biased;
        _ = acquires => panic!("the table is locked"),
        outcomes = releases => for outcome in outcomes.unwrap() {
            assert_eq!(outcome.unwrap(), ReleaseOutcome::Released);
        },
    }
    drop(transaction);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_runs_out_of_time_says_why() {
    let server = Server::shared().await;
    let t = server
        .backend(|config| config.operation_timeout_ms = 600)
        .await;
    acquire_all(&t.backend, &requests("warm")).await;
    let transaction = server
        .begin_transaction(&format!("LOCK TABLE {}", t.fences))
        .await;
    for outcome in acquire_all(&t.backend, &requests("k")).await {
        let error = outcome.unwrap_err();
        assert_eq!(error.code, ErrorCode::NetworkTimeout);
        let told = ["did not finish", "holds a lock", "all of them are in use"];
        assert!(
            told.iter().any(|why| error.message.contains(why)),
            "{error:?}"
        );
        assert!(!error.outcome_unknown);
    }
    drop(transaction);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_for_the_same_key_or_lock_do_not_share_a_statement() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let requests: Vec<_> = (0..REQUESTS)
        .map(|index| request(&format!("k{}", index % 8), 60_000))
        .collect();
    let outcomes = acquire_all(&t.backend, &requests).await;
    let winners: Vec<_> = outcomes
        .iter()
        .zip(&requests)
        .filter(|(outcome, _)| matches!(outcome, Ok(AcquireOutcome::Acquired { .. })))
        .map(|(_, request)| request.clone())
        .collect();
    let keys: BTreeSet<_> = winners.iter().map(|winner| winner.key.as_str()).collect();
    assert_eq!((winners.len(), keys.len()), (8, 8));
    assert!(outcomes.iter().all(Result::is_ok));

    let doubled: Vec<_> = winners.iter().cycle().take(REQUESTS).cloned().collect();
    let outcomes = release_all(&t.backend, &doubled).await;
    let released = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Ok(ReleaseOutcome::Released)));
    assert_eq!(released.count(), 8);
}

/// The outcome is unknown, and each caller gets an error that says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_a_batch_fail_in_time_if_the_server_dies() {
    let mut server = Server::start().await;
    // Requests that were not sent yet wait for the server to come back.
    let t = server
        .backend(|config| config.connect_timeout_ms = Some(500))
        .await;
    let first = requests("k");
    acquire_all(&t.backend, &first).await;
    let table = format!("LOCK TABLE {}", t.fences);
    let transaction = server.begin_transaction(&table).await;
    let backend = Arc::new(t.backend);
    let acquiring = {
        let backend = Arc::clone(&backend);
        tokio::spawn(async move { acquire_all(&backend, &requests("other")).await })
    };
    sleep(Duration::from_millis(50)).await;
    server.kill();
    let outcomes = timeout(TIMEOUT, acquiring).await.unwrap().unwrap();
    for outcome in outcomes {
        assert_eq!(outcome.unwrap_err().code, ErrorCode::ServiceUnavailable);
    }
    drop(transaction);
    server.restart().await;
    for outcome in release_all(&backend, &first).await {
        assert_eq!(outcome.unwrap(), ReleaseOutcome::Released);
    }
}
