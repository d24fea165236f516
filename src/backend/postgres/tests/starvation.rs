//! Requests that wait for another session leave connections to those that need not wait.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::server::{Server, request, ttl};
use crate::backend::postgres::sql::ADVISORY_LOCK_CLASS;
use crate::backend::{AcquireOutcome, Backend, ExtendOutcome, ReleaseOutcome};

/// Far shorter than a request may wait for another session, far longer than it takes.
const TIMEOUT: Duration = Duration::from_secs(2);
const SIZES: [u32; 4] = [1, 2, 3, 10];

fn is_extended(outcome: &ExtendOutcome) -> bool {
    matches!(outcome, ExtendOutcome::Extended { .. })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_acquires_leave_a_connection_for_extends_and_releases() {
    let server = Server::shared().await;
    for size in SIZES {
        let t = server
            .backend(|config| {
                config.pool_size = Some(size);
                config.operation_timeout_ms = 20_000;
            })
            .await;
        let held = request("unrelated", 60_000);
        t.backend.acquire(&held).await.unwrap();
        let advisory_lock =
            format!("SELECT pg_advisory_xact_lock({ADVISORY_LOCK_CLASS}, hashtext('busy'))");
        let transaction = server.begin_transaction(&advisory_lock).await;
        let backend = Arc::new(t.backend);
        let mut blocked = JoinSet::new();
        for _ in 0..40 {
            let backend = Arc::clone(&backend);
            blocked.spawn(async move { backend.acquire(&request("busy", 60_000)).await });
        }
        for _ in 0..5 {
            let extending = backend.extend(held.lock_id, ttl(60_000));
            let extended = timeout(TIMEOUT, extending).await.expect("an extend waits");
            assert!(is_extended(&extended.unwrap()));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let releasing = backend.release(held.lock_id.into());
        let released = timeout(TIMEOUT, releasing).await.expect("a release waits");
        assert_eq!(released.unwrap(), ReleaseOutcome::Released);
        // The acquires still wait. They succeed or are refused once the advisory lock is released.
        assert_eq!(blocked.try_join_next().map(drop), None);
        drop(transaction);
        let outcomes = blocked.join_all().await;
        let is_winner = |outcome: &_| matches!(outcome, Ok(AcquireOutcome::Acquired { .. }));
        assert_eq!(outcomes.iter().filter(|one| is_winner(one)).count(), 1);
        assert!(outcomes.iter().all(|outcome| outcome.is_ok()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_extends_do_not_delay_others() {
    let server = Server::shared().await;
    for size in SIZES {
        let t = server
            .backend(|config| {
                config.pool_size = Some(size);
                config.operation_timeout_ms = 20_000;
            })
            .await;
        let held = request("unrelated", 60_000);
        t.backend.acquire(&held).await.unwrap();
        let stuck: Vec<_> = (0..8)
            .map(|index| request(&format!("stuck {index}"), 60_000))
            .collect();
        join_all(stuck.iter().map(|one| t.backend.acquire(one))).await;
        let rows = format!("SELECT FROM {} WHERE key ~ 'stuck' FOR UPDATE", t.locks);
        let transaction = server.begin_transaction(&rows).await;
        let backend = Arc::new(t.backend);
        let mut blocked = JoinSet::new();
        for lock_id in stuck.iter().map(|one| one.lock_id) {
            let backend = Arc::clone(&backend);
            blocked.spawn(async move { backend.extend(lock_id, ttl(60_000)).await });
        }
        for _ in 0..5 {
            let extending = backend.extend(held.lock_id, ttl(60_000));
            let extended = timeout(TIMEOUT, extending).await.expect("an extend waits");
            assert!(is_extended(&extended.unwrap()));
        }
        assert_eq!(blocked.try_join_next().map(drop), None);
        drop(transaction);
        for outcome in blocked.join_all().await {
            assert!(is_extended(&outcome.unwrap()));
        }
    }
}
