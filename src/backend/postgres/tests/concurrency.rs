//! Concurrency: acquires of one key, other transactions and sessions, setup.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::server::{Server, request, ttl, unique};
use crate::backend::postgres::PostgresBackend;
use crate::backend::{AcquireOutcome, Backend, ExtendOutcome, ReleaseOutcome, Warnings};
use crate::error::ErrorCode;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_wins_and_fences_grow() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let backend = Arc::new(t.backend);
    let mut last_fence = 0;
    for _ in 0..10 {
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let backend = Arc::clone(&backend);
                tokio::spawn(async move {
                    let request = request("one key", 60_000);
                    (request.lock_id, backend.acquire(&request).await.unwrap())
                })
            })
            .collect();
        let mut winners = Vec::new();
        for task in tasks {
            let (id, outcome) = task.await.unwrap();
            if let AcquireOutcome::Acquired { fence, .. } = outcome {
                winners.push((id, fence.value()));
            }
        }
        assert_eq!(winners.len(), 1);
        // The fence may grow by more than one: an acquire whose snapshot is older than the winner's commit
        // skips one.
        assert!(winners[0].1 > last_fence);
        last_fence = winners[0].1;
        assert_eq!(
            backend.release(winners[0].0.into()).await.unwrap(),
            ReleaseOutcome::Released
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_never_overlap_and_fences_grow() {
    let server = Server::shared().await;
    let t = server.backend(|config| config.pool_size = Some(4)).await;
    let backend = Arc::new(t.backend);
    let (inside, last) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (backend, inside, last) =
                (Arc::clone(&backend), Arc::clone(&inside), Arc::clone(&last));
            tokio::spawn(async move {
                let mut done = 0;
                while done < 15 {
                    let request = request("hot", 60_000);
                    let AcquireOutcome::Acquired { fence, .. } =
                        backend.acquire(&request).await.unwrap()
                    else {
                        tokio::task::yield_now().await;
                        continue;
                    };
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    let fence = u32::try_from(fence.value()).unwrap();
                    assert!(last.swap(fence, Ordering::SeqCst) < fence);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    assert_eq!(
                        backend.release(request.lock_id.into()).await.unwrap(),
                        ReleaseOutcome::Released
                    );
                    done += 1;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// The lock looks expired to the acquire's snapshot, but an extend holds the row and commits first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_extended_at_the_last_moment_is_not_overwritten() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let held = request("k", 60_000);
    t.backend.acquire(&held).await.unwrap();
    server
        .sql(&format!("UPDATE {} SET expires_at_ms = 1", t.locks))
        .await;

    let extender = server
        .begin_transaction(&format!(
            "UPDATE {} SET expires_at_ms = 8000000000000",
            t.locks
        ))
        .await;
    let backend = Arc::new(t.backend);
    let acquiring = {
        let backend = Arc::clone(&backend);
        tokio::spawn(async move { backend.acquire(&request("k", 60_000)).await })
    };
    wait_for_blocked_statement(&server, &t.locks).await;
    extender.batch_execute("COMMIT").await.unwrap();
    // An attempt that waits for the row for too long is repeated, and then sees the holder.
    assert!(matches!(
        acquiring.await.unwrap().unwrap(),
        AcquireOutcome::Locked(_)
    ));
    assert!(matches!(
        backend.extend(held.lock_id, ttl(1000)).await.unwrap(),
        ExtendOutcome::Extended { .. }
    ));
}

/// Waits until a statement on this table waits for a lock.
async fn wait_for_blocked_statement(server: &Server, table: &str) {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity a JOIN pg_locks l USING (pid) JOIN pg_locks r USING (pid) \
         WHERE NOT l.granted AND r.relation = '{table}'::regclass"
    );
    while server.sql(&sql).await.as_deref() == Some("0") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Behind a pooler the session with our statements may be replaced by another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_that_vanish_are_no_longer_used() {
    let server = Server::start().await;
    let t = server.backend(|config| config.pool_size = Some(1)).await;
    let first = request("a", 60_000);
    t.backend.acquire(&first).await.unwrap();
    let in_use = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'EXECUTE syncguard%'";
    assert_eq!(server.sql(in_use).await.as_deref(), Some("1"));
    // Only the session itself can drop its statements, so a trigger in it does.
    server
        .sql(&format!(
            "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'DEALLOCATE ALL'; RETURN NULL; END $$; \
             CREATE TRIGGER forget AFTER DELETE ON {} FOR EACH STATEMENT EXECUTE FUNCTION forget()",
            t.locks
        ))
        .await;
    let _ = t.backend.release(first.lock_id.into()).await;
    for _ in 0..3 {
        let again = request("a", 60_000);
        assert!(matches!(
            t.backend.acquire(&again).await.unwrap(),
            AcquireOutcome::Acquired { .. }
        ));
        assert_eq!(
            t.backend.release(again.lock_id.into()).await.unwrap(),
            ReleaseOutcome::Released
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stricter_default_isolation_changes_nothing() {
    let server = Server::start().await;
    server
        .sql("ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'")
        .await;
    for prepare in [true, false] {
        let t = server.backend(|config| config.prepare = prepare).await;
        let backend = Arc::new(t.backend);
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let backend = Arc::clone(&backend);
                tokio::spawn(async move { backend.acquire(&request("k", 60_000)).await.unwrap() })
            })
            .collect();
        let mut won = 0;
        for task in tasks {
            won += u32::from(matches!(
                task.await.unwrap(),
                AcquireOutcome::Acquired { .. }
            ));
        }
        assert_eq!(won, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn setup_under_the_default_names() {
    let server = Server::shared().await;
    let backend = PostgresBackend::open(server.config(), Warnings::new(|_| {})).unwrap();
    backend.setup().await.unwrap();
    backend.setup().await.unwrap();
    let indexes = "SELECT string_agg(indexname, ' ' ORDER BY indexname) FROM pg_indexes WHERE indexname LIKE 'idx_syncguard_locks_%'";
    assert_eq!(
        server.sql(indexes).await.as_deref(),
        Some(
            "idx_syncguard_locks_expires idx_syncguard_locks_holders_expires \
             idx_syncguard_locks_holders_key idx_syncguard_locks_lock_id"
        )
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn setup_may_run_concurrently_again_and_in_a_schema() {
    let server = Server::shared().await;
    let schema = unique("app");
    server.sql(&format!("CREATE SCHEMA {schema}")).await;
    let open = || {
        let mut config = server.config();
        config.table_name = format!("{schema}.{}", "L".repeat(63));
        config.fence_table_name = format!("{schema}.fences");
        PostgresBackend::open(config, Warnings::new(|_| {})).unwrap()
    };
    let error = open().acquire(&request("k", 1000)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArgument);
    assert!(error.message.contains("setupSchema"));
    assert_eq!(error.details, [("sqlstate", "42P01".into())]);

    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let backend = open();
            tokio::spawn(async move { backend.setup().await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let backend = open();
    backend.setup().await.unwrap();
    assert!(matches!(
        backend.acquire(&request("k", 1000)).await.unwrap(),
        AcquireOutcome::Acquired { .. }
    ));
    let indexes = server
        .sql(&format!("SELECT string_agg(indexdef, ';' ORDER BY indexdef) FROM pg_indexes WHERE schemaname = '{schema}'"))
        .await
        .unwrap();
    // Of the lock table and of the table of holders.
    assert_eq!(indexes.matches("(lock_id)").count(), 2, "{indexes}");
    assert_eq!(indexes.matches("(expires_at_ms)").count(), 2, "{indexes}");
    assert_eq!(indexes.matches("(key, lock_id)").count(), 1, "{indexes}");

    let mut config = server.config();
    config.table_name = "no_such_schema.locks".to_owned();
    let error = PostgresBackend::open(config, Warnings::new(|_| {}))
        .unwrap()
        .setup()
        .await
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_rights_gets_an_error_and_may_call_setup_if_nothing_is_missing() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let role = unique("weak");
    server.sql(&format!("CREATE ROLE {role} LOGIN")).await;
    let open = || {
        let mut config = server.config();
        config.url = Some(format!(
            "postgres://{role}@127.0.0.1:{}/postgres",
            server.port
        ));
        config.table_name.clone_from(&t.locks);
        config.fence_table_name.clone_from(&t.fences);
        PostgresBackend::open(config, Warnings::new(|_| {})).unwrap()
    };
    let error = open().acquire(&request("k", 1000)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::AuthFailed);
    assert!(error.details.contains(&("sqlstate", "42501".into())));
    open().setup().await.unwrap();
    server
        .sql(&format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON {}, {} TO {role}",
            t.locks, t.fences
        ))
        .await;
    let request = request("k", 1000);
    let backend = open();
    assert!(matches!(
        backend.acquire(&request).await.unwrap(),
        AcquireOutcome::Acquired { .. }
    ));
    assert_eq!(
        backend.release(request.lock_id.into()).await.unwrap(),
        ReleaseOutcome::Released
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_not_notify_can_still_release() {
    let server = Server::start().await;
    let t = server.backend(|_| {}).await;
    server
        .sql(&format!(
            "CREATE ROLE mute LOGIN; GRANT ALL ON {}, {} TO mute; \
             REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC",
            t.locks, t.fences
        ))
        .await;
    let mut config = server.config();
    config.url = Some(format!(
        "postgres://mute@127.0.0.1:{}/postgres",
        server.port
    ));
    config.table_name.clone_from(&t.locks);
    config.fence_table_name.clone_from(&t.fences);
    let notes = Arc::new(AtomicU32::new(0));
    let warnings = Warnings::new({
        let notes = Arc::clone(&notes);
        move |_| {
            notes.fetch_add(1, Ordering::Relaxed);
        }
    });
    let backend = PostgresBackend::open(config, warnings.with_debug(true)).unwrap();
    for _ in 0..2 {
        let request = request("k", 60_000);
        backend.acquire(&request).await.unwrap();
        assert_eq!(
            backend.release(request.lock_id.into()).await.unwrap(),
            ReleaseOutcome::Released
        );
        backend.acquire(&request).await.unwrap();
        assert!(backend.force_release(&request.key).await.unwrap());
    }
    assert_eq!(notes.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stored_format() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let held = request("a:b", 60_000);
    t.backend.acquire(&held).await.unwrap();
    let row = server
        .sql(&format!("SELECT concat_ws('|', key, lock_id, fence, user_key, expires_at_ms - acquired_at_ms) FROM {}", t.locks))
        .await;
    let expected = format!("a:b|{}|000000000000001|a:b|60000", held.lock_id.as_str());
    assert_eq!(row.unwrap(), expected);
    let counter = server
        .sql(&format!(
            "SELECT concat_ws('|', fence_key, fence, key_debug) FROM {}",
            t.fences
        ))
        .await;
    assert_eq!(counter.unwrap(), "fence:a:b|1|a:b");
    let columns = server
        .sql(&format!("SELECT string_agg(column_name || ' ' || data_type || ' ' || is_nullable, ',' ORDER BY ordinal_position) FROM information_schema.columns WHERE table_name = '{}'", t.locks))
        .await;
    let unique: BTreeSet<_> = columns
        .as_deref()
        .unwrap()
        .split(',')
        .map(str::to_owned)
        .collect();
    assert_eq!(unique.len(), 6);
    assert!(unique.contains("expires_at_ms bigint NO") && unique.contains("fence text NO"));
}
