//! Requests that share a transaction: none of them notices what is wrong with another.

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

const MANY: usize = 40;
/// One of them, in the middle.
const ONE: usize = 20;
/// Far more than they take, far less than an operation may.
const SOON: Duration = Duration::from_secs(2);

fn requests(prefix: &str) -> Vec<AcquireRequest> {
    let key = |index| format!("{prefix} \"it's\" \\ {{{index}}}");
    (0..MANY)
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

/// How many transactions changed the rows that are there.
async fn transactions(server: &Server, table: &str) -> usize {
    let sql = format!("SELECT count(DISTINCT xmin::text) FROM {table}");
    server.sql(&sql).await.unwrap().parse().unwrap()
}

async fn expire_all(server: &Server, locks: &str) {
    server
        .sql(&format!("UPDATE {locks} SET expires_at_ms = 1"))
        .await;
}

/// Somebody else who has the row of this lock.
async fn holder_of_row(server: &Server, locks: &str, request: &AcquireRequest) -> Client {
    let lock_id = request.lock_id.as_str();
    server
        .stranger(&format!(
            "SELECT FROM {locks} WHERE lock_id = '{lock_id}' FOR UPDATE"
        ))
        .await
}

async fn only_one_waits<T: Debug>(
    operations: impl Iterator<Item = impl Future<Output = Result<T>>>,
) {
    let operations = operations.enumerate().map(async |(index, operation)| {
        let outcome = timeout(SOON, operation).await;
        assert_eq!(outcome.is_err(), index == ONE, "{outcome:?}");
        assert!(outcome.is_err() || outcome.is_ok_and(|outcome| outcome.is_ok()));
    });
    join_all(operations).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_need_few_transactions() {
    let server = Server::shared().await;
    for prepare in [true, false] {
        let requests = requests("k");
        // Those that are there at the same time share one. On a busy machine they may come one by
        // one, so that a single good time of several is enough.
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
            if used.iter().all(|used| *used < MANY / 2) {
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
        assert_eq!(stored, Some(MANY.to_string()));

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
async fn a_key_that_somebody_else_is_at_keeps_only_its_own_waiting() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let requests = requests("k");
    let contended = format!("hashtext($${}$$)", requests[ONE].key.as_str());
    let turn = format!("SELECT pg_advisory_xact_lock({ADVISORY_LOCK_CLASS}, {contended})");
    let stranger = server.stranger(&turn).await;

    only_one_waits(requests.iter().map(|request| t.backend.acquire(request))).await;
    drop(stranger);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_somebody_else_holds_keeps_only_its_own_waiting() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let requests = requests("k");
    acquire_all(&t.backend, &requests).await;
    let stranger = holder_of_row(&server, &t.locks, &requests[ONE]).await;
    only_one_waits(
        requests
            .iter()
            .map(|request| t.backend.release(request.lock_id.into())),
    )
    .await;
    drop(stranger);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_row_that_somebody_else_holds_keeps_only_its_own_waiting() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let old = requests("k");
    acquire_all(&t.backend, &old).await;
    expire_all(&server, &t.locks).await;
    let stranger = holder_of_row(&server, &t.locks, &old[ONE]).await;
    let requests = requests("k");
    only_one_waits(requests.iter().map(|request| t.backend.acquire(request))).await;
    drop(stranger);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_has_its_own_error() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let requests = requests("k");
    // A counter at its end, and a key that the table does not take.
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
async fn who_comes_while_others_are_stuck_is_served() {
    let server = Server::start().await;
    let t = server.backend(|config| config.pool_size = Some(40)).await;
    let held = requests("held");
    acquire_all(&t.backend, &held).await;
    let stuck: Vec<_> = ["a", "b", "c"].into_iter().flat_map(requests).collect();
    // While a table is locked, no session can be prepared.
    join_all(held.iter().map(|one| t.backend.is_locked(&one.key))).await;
    let stranger = server.stranger(&format!("LOCK TABLE {}", t.fences)).await;
    let acquires = acquire_all(&t.backend, &stuck);
    let releases = timeout(SOON, release_all(&t.backend, &held));
    tokio::select! {
        biased;
        _ = acquires => panic!("the table is locked"),
        outcomes = releases => for outcome in outcomes.unwrap() {
            assert_eq!(outcome.unwrap(), ReleaseOutcome::Released);
        },
    }
    drop(stranger);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_no_time_left_is_told_why() {
    let server = Server::shared().await;
    let t = server
        .backend(|config| config.operation_timeout_ms = 600)
        .await;
    acquire_all(&t.backend, &requests("warm")).await;
    let stranger = server.stranger(&format!("LOCK TABLE {}", t.fences)).await;
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
    drop(stranger);
}

/// Those who want the same cannot share a statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_and_the_same_lock_several_times() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let requests: Vec<_> = (0..MANY)
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

    let doubled: Vec<_> = winners.iter().cycle().take(MANY).cloned().collect();
    let outcomes = release_all(&t.backend, &doubled).await;
    let released = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Ok(ReleaseOutcome::Released)));
    assert_eq!(released.count(), 8);
}

/// With the little that a role needs at least.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_do_less() {
    let server = Server::start().await;
    let t = server.backend(|_| {}).await;
    server
        .sql(&format!(
            "CREATE ROLE mute LOGIN; GRANT ALL ON {}, {} TO mute; \
             REVOKE EXECUTE ON FUNCTION pg_try_advisory_xact_lock(bigint), \
             pg_try_advisory_xact_lock(int, int) FROM PUBLIC",
            t.locks, t.fences
        ))
        .await;
    let mute = server
        .backend(|config| {
            config.url = Some(format!(
                "postgres://mute@127.0.0.1:{}/postgres",
                server.port
            ));
            config.table_name.clone_from(&t.locks);
            config.fence_table_name.clone_from(&t.fences);
        })
        .await;
    for round in 0..3 {
        let requests = requests(&format!("round {round}"));
        assert!(
            acquire_all(&mute.backend, &requests)
                .await
                .iter()
                .all(is_first)
        );
        for outcome in release_all(&mute.backend, &requests).await {
            assert_eq!(outcome.unwrap(), ReleaseOutcome::Released);
        }
    }
}

/// Nobody knows what became of them: each is told so, and in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies() {
    let mut server = Server::start().await;
    // Those that were not sent yet wait for the server to come back.
    let t = server
        .backend(|config| config.connect_timeout_ms = Some(500))
        .await;
    let first = requests("k");
    acquire_all(&t.backend, &first).await;
    let table = format!("LOCK TABLE {}", t.fences);
    let stranger = server.stranger(&table).await;
    let backend = Arc::new(t.backend);
    let acquiring = {
        let backend = Arc::clone(&backend);
        tokio::spawn(async move { acquire_all(&backend, &requests("other")).await })
    };
    sleep(Duration::from_millis(50)).await;
    server.kill();
    let outcomes = timeout(SOON, acquiring).await.unwrap().unwrap();
    for outcome in outcomes {
        assert_eq!(outcome.unwrap_err().code, ErrorCode::ServiceUnavailable);
    }
    drop(stranger);
    server.restart().await;
    for outcome in release_all(&backend, &first).await {
        assert_eq!(outcome.unwrap(), ReleaseOutcome::Released);
    }
}
