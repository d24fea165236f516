//! Acquires while another session holds the advisory lock on `hashtext(key)`: an application for a purpose
//! of its own, or another implementation of the stored format that is acquiring the key.

use std::time::Duration;

use tokio::time::sleep;
use tokio_postgres::Client;

use super::server::{Server, Tables, request};
use crate::backend::{AcquireOutcome, Backend, ReleaseOutcome};
use crate::error::{ErrorCode, Result};

/// Acquires as another implementation does, one statement at a time.
struct Other<'a> {
    client: Client,
    t: &'a Tables,
}

impl<'a> Other<'a> {
    /// Begins a transaction and takes the advisory lock of the key `k`.
    async fn begin(server: &Server, t: &'a Tables) -> Self {
        let advisory_lock = "SELECT pg_advisory_xact_lock(hashtext('k'))";
        Self {
            client: server.begin_transaction(advisory_lock).await,
            t,
        }
    }

    /// Locks the row. Returns whether the key is free.
    async fn look(&self) -> bool {
        let sql = format!(
            "SELECT expires_at_ms FROM {} WHERE key = 'k' FOR UPDATE",
            self.t.locks
        );
        let rows = self.client.query(&sql, &[]).await.unwrap();
        rows.iter()
            .all(|row| row.get::<_, i64>(0) < 1_000_000_000_000)
    }

    async fn store(&self) {
        let Tables { locks, fences, .. } = self.t;
        self.client
            .batch_execute(&format!(
                "INSERT INTO {fences} VALUES ('fence:k', 1, 'k') \
                 ON CONFLICT (fence_key) DO UPDATE SET fence = {fences}.fence + 1; \
                 INSERT INTO {locks} VALUES ('k', 'AAAAAAAAAAAAAAAAAAAAAA', 8000000000000, 1, \
                 lpad((SELECT fence::text FROM {fences} WHERE fence_key = 'fence:k'), 15, '0'), 'k') \
                 ON CONFLICT (key) DO UPDATE SET lock_id = excluded.lock_id, \
                 expires_at_ms = excluded.expires_at_ms, fence = excluded.fence; COMMIT"
            ))
            .await
            .unwrap();
    }
}

/// Longer than an acquire takes that need not wait.
const LONG_MS: u64 = 20_000;
const SHORT_MS: u64 = 1_000;

async fn setup(server: &Server, prepare: bool, timeout_ms: u64) -> Tables {
    server
        .backend(|config| {
            config.prepare = prepare;
            config.operation_timeout_ms = timeout_ms;
        })
        .await
}

fn fence(outcome: Result<AcquireOutcome>) -> u64 {
    match outcome.unwrap() {
        AcquireOutcome::Acquired { fence, .. } => fence.value(),
        AcquireOutcome::Locked(_) => panic!("locked"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_that_holds_the_advisory_lock_does_not_block_an_acquire() {
    let server = Server::shared().await;
    let own_locks = [
        // At the end of the transaction it is gone, or not.
        "SELECT pg_advisory_xact_lock(hashtext('k'))",
        "SELECT pg_advisory_lock(hashtext('k')); COMMIT",
        "SELECT pg_advisory_lock_shared(hashtext('k'))",
    ];
    for own_lock in own_locks {
        for prepare in [true, false] {
            let t = setup(&server, prepare, LONG_MS).await;
            let _application = server.begin_transaction(own_lock).await;
            for round in 1..=3 {
                let held = request("k", 60_000);
                assert_eq!(fence(t.backend.acquire(&held).await), round);
                let refused = t.backend.acquire(&request("k", 1000)).await.unwrap();
                let AcquireOutcome::Locked(Some(holder)) = refused else {
                    panic!("{refused:?}");
                };
                assert!(holder.free_in > Duration::from_secs(50));
                let released = t.backend.release(held.lock_id.into()).await.unwrap();
                assert_eq!(released, ReleaseOutcome::Released);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_implementation_that_found_the_key_free_gets_it() {
    let server = Server::shared().await;
    for prepare in [true, false] {
        for has_row in [true, false] {
            let t = setup(&server, prepare, SHORT_MS).await;
            let mut next = 1;
            if has_row {
                t.backend.acquire(&request("k", 60_000)).await.unwrap();
                let expire = format!("UPDATE {} SET expires_at_ms = 1", t.locks);
                server.sql(&expire).await;
                next = 2;
            }
            let other = Other::begin(&server, &t).await;
            assert!(other.look().await);
            let error = t.backend.acquire(&request("k", 60_000)).await.unwrap_err();
            assert_eq!(
                (error.code, error.outcome_unknown),
                (ErrorCode::NetworkTimeout, false)
            );
            other.store().await;
            let refused = t.backend.acquire(&request("k", 60_000)).await.unwrap();
            assert!(matches!(refused, AcquireOutcome::Locked(Some(_))));
            let fences = format!("SELECT fence FROM {}", t.fences);
            assert_eq!(server.sql(&fences).await, Some(next.to_string()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_implementation_that_looks_later_finds_the_key_locked() {
    let server = Server::shared().await;
    for prepare in [true, false] {
        let t = setup(&server, prepare, LONG_MS).await;
        let other = Other::begin(&server, &t).await;
        assert_eq!(fence(t.backend.acquire(&request("k", 60_000)).await), 1);
        assert!(!other.look().await);
    }
}

/// Whichever of the two locks the row first gets the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_implementation_that_looks_meanwhile_excludes_us_or_is_excluded() {
    let server = Server::shared().await;
    let t = setup(&server, true, SHORT_MS).await;
    let counter = format!("INSERT INTO {} VALUES ('fence:k', 7)", t.fences);
    server.sql(&counter).await;
    for pause_ms in [0, 20, 60, 120, 200] {
        server.sql(&format!("DELETE FROM {}", t.locks)).await;
        // Our acquire is held up for a while where it increments the counter, with the row locked.
        let counted = format!("SELECT FROM {} FOR UPDATE", t.fences);
        let stopping = server.begin_transaction(&counted).await;
        let other = Other::begin(&server, &t).await;
        let held = request("k", 60_000);
        let (outcome, is_free) = tokio::join!(t.backend.acquire(&held), async {
            sleep(Duration::from_millis(60 + pause_ms)).await;
            let (is_free, ()) = tokio::join!(other.look(), async {
                sleep(Duration::from_millis(20)).await;
                stopping.batch_execute("ROLLBACK").await.unwrap();
            });
            is_free
        });
        match outcome {
            Ok(AcquireOutcome::Acquired { .. }) => assert!(!is_free),
            Ok(AcquireOutcome::Locked(_)) => panic!("nobody else has stored a lock"),
            Err(error) => assert!(is_free && error.code == ErrorCode::NetworkTimeout),
        }
    }
}
