use std::collections::BTreeMap;
use std::time::Duration;

use super::server::{Server, request, ttl};
use crate::backend::{AcquireOutcome, Backend, ExtendOutcome, LookupQuery, Miss, ReleaseOutcome};
use crate::error::ErrorCode;
use crate::lock::fence::FENCE_MAX;
use crate::lock::{Key, LockId};

fn fence(outcome: AcquireOutcome) -> u64 {
    match outcome {
        AcquireOutcome::Acquired { fence, .. } => fence.value(),
        AcquireOutcome::Locked(_) => panic!("locked"),
    }
}

fn free_in(outcome: AcquireOutcome) -> Option<u64> {
    match outcome {
        AcquireOutcome::Locked(holder) => holder.map(|holder| holder.free_in.as_millis() as u64),
        AcquireOutcome::Acquired { .. } => panic!("acquired"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_from_acquire_to_release() {
    let server = Server::shared().await;
    for prepare in [true, false] {
        let t = server.backend(|config| config.prepare = prepare).await;
        for key in [
            "plain",
            "it's \\ $1 \"quoted\"",
            "schlüssel 🔑",
            "a\nb",
            "nul \0 100%",
            "{\"json\":1}",
            "'; DROP TABLE x; --",
        ] {
            let request = request(key, 60_000);
            let AcquireOutcome::Acquired {
                fence,
                expires_at_ms,
                ..
            } = t.backend.acquire(&request).await.unwrap()
            else {
                panic!("locked");
            };
            assert_eq!(fence.value(), 1);
            let refused = super::server::request(key, 1000);
            let free_in = free_in(t.backend.acquire(&refused).await.unwrap());
            assert!((50_000..=61_000).contains(&free_in.unwrap()));
            assert!(t.backend.is_locked(&request.key).await.unwrap());
            for query in [
                LookupQuery::Key(request.key.clone()),
                LookupQuery::LockId(request.lock_id),
            ] {
                let found = t.backend.lookup(&query).await.unwrap().unwrap();
                assert!(
                    found.key == key && found.lock_id == request.lock_id && found.fence == fence
                );
                assert_eq!(found.expires_at_ms, expires_at_ms);
                assert_eq!(found.acquired_at_ms + 60_000, expires_at_ms);
            }
            let ExtendOutcome::Extended {
                expires_at_ms: later,
            } = t
                .backend
                .extend(request.lock_id, ttl(120_000))
                .await
                .unwrap()
            else {
                panic!("not extended");
            };
            assert!(later >= expires_at_ms + 60_000);
            assert_eq!(
                t.backend.release(request.lock_id.into()).await.unwrap(),
                ReleaseOutcome::Released
            );
            assert_eq!(
                t.backend.release(request.lock_id.into()).await.unwrap(),
                ReleaseOutcome::Missed(Miss::NotFound)
            );
            assert!(!t.backend.is_locked(&request.key).await.unwrap());
            assert!(
                t.backend
                    .lookup(&LookupQuery::LockId(request.lock_id))
                    .await
                    .unwrap()
                    .is_none()
            );
        }
        t.backend.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_lock_can_be_acquired_and_no_longer_changed() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let old = request("k", 60_000);
    assert_eq!(fence(t.backend.acquire(&old).await.unwrap()), 1);
    // The tolerance of 1000 ms is over.
    server
        .sql(&format!("UPDATE {} SET expires_at_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1001", t.locks))
        .await;
    assert!(!t.backend.is_locked(&old.key).await.unwrap());
    assert!(
        t.backend
            .lookup(&LookupQuery::Key(old.key.clone()))
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(
        t.backend.extend(old.lock_id, ttl(1000)).await.unwrap(),
        ExtendOutcome::Missed(Miss::Expired)
    );
    assert_eq!(
        t.backend.release(old.lock_id.into()).await.unwrap(),
        ReleaseOutcome::Missed(Miss::Expired)
    );
    let new = request("k", 60_000);
    assert_eq!(fence(t.backend.acquire(&new).await.unwrap()), 2);
    // The old owner cannot change the lock of the new one.
    assert_eq!(
        t.backend.extend(old.lock_id, ttl(1000)).await.unwrap(),
        ExtendOutcome::Missed(Miss::NotFound)
    );
    assert_eq!(
        t.backend.release(old.lock_id.into()).await.unwrap(),
        ReleaseOutcome::Missed(Miss::NotFound)
    );
    assert!(t.backend.is_locked(&new.key).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_fence_and_damaged_data_are_errors() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let set = async |fence: String| {
        let sql = format!(
            "INSERT INTO {} (fence_key, fence) VALUES ('fence:k', {fence}) ON CONFLICT (fence_key) DO UPDATE SET fence = excluded.fence",
            t.fences
        );
        server.sql(&sql).await;
    };
    set((FENCE_MAX - 1).to_string()).await;
    let last = request("k", 60_000);
    assert_eq!(fence(t.backend.acquire(&last).await.unwrap()), FENCE_MAX);
    t.backend.release(last.lock_id.into()).await.unwrap();
    for counter in [FENCE_MAX.to_string(), i64::MAX.to_string(), "-5".to_owned()] {
        set(counter).await;
        let error = t.backend.acquire(&request("k", 60_000)).await.unwrap_err();
        assert_eq!(
            (error.code, error.outcome_unknown),
            (ErrorCode::Internal, false)
        );
        // Nothing was written.
        assert!(!t.backend.is_locked(&Key::new("k").unwrap()).await.unwrap());
    }
    set("7".to_owned()).await;
    let held = request("k", 60_000);
    assert_eq!(fence(t.backend.acquire(&held).await.unwrap()), 8);
    for damage in [
        "lock_id = 'short'",
        "fence = 'x'",
        "fence = '999999999999999'",
        "acquired_at_ms = -1",
        "expires_at_ms = 9223372036854775807",
    ] {
        server
            .sql(&format!("UPDATE {} SET {damage}", t.locks))
            .await;
        let error = t
            .backend
            .lookup(&LookupQuery::Key(held.key.clone()))
            .await
            .err()
            .unwrap();
        assert_eq!(error.code, ErrorCode::Internal, "{damage}");
        assert!(t.backend.is_locked(&held.key).await.unwrap(), "{damage}");
        let refused = t.backend.acquire(&request("k", 1000)).await.unwrap();
        assert!(matches!(refused, AcquireOutcome::Locked(_)), "{damage}");
    }
}

/// The time is that of the server's clock and includes the tolerance, so an attempt then succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_attempt_tells_when_the_lock_expires() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    t.backend.acquire(&request("k", 60_000)).await.unwrap();
    server
        .sql(&format!("UPDATE {} SET expires_at_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 500", t.locks))
        .await;
    let refused = t.backend.acquire(&request("k", 1000)).await.unwrap();
    let free_in = free_in(refused).unwrap();
    assert!((1..=500).contains(&free_in), "{free_in}");
    tokio::time::sleep(Duration::from_millis(free_in)).await;
    assert_eq!(
        fence(t.backend.acquire(&request("k", 1000)).await.unwrap()),
        2
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_locked_cleans_up_only_when_asked_to_and_only_old_locks() {
    let server = Server::shared().await;
    for cleanup in [false, true] {
        let t = server
            .backend(|config| config.cleanup_in_is_locked = cleanup)
            .await;
        for (key, age) in [("live", -60_000), ("recent", 1500), ("old", 3_600_000)] {
            t.backend.acquire(&request(key, 60_000)).await.unwrap();
            server.sql(&format!("UPDATE {} SET expires_at_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint - {age} WHERE key = '{key}'", t.locks)).await;
            t.backend.is_locked(&Key::new(key).unwrap()).await.unwrap();
        }
        let count = format!("SELECT string_agg(key, ',' ORDER BY key) FROM {}", t.locks);
        let expected = if cleanup {
            "live,recent"
        } else {
            "live,old,recent"
        };
        // The clean-up runs in the background.
        for _ in 0..500 {
            if server.sql(&count).await.as_deref() == Some(expected) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(server.sql(&count).await.as_deref(), Some(expected));
        assert_eq!(
            server
                .sql(&format!("SELECT count(*) FROM {}", t.fences))
                .await
                .as_deref(),
            Some("3")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_lock_id_is_not_found() {
    let server = Server::shared().await;
    let t = server.backend(|_| {}).await;
    let id = LockId::generate();
    assert_eq!(
        t.backend.release(id.into()).await.unwrap(),
        ReleaseOutcome::Missed(Miss::NotFound)
    );
    assert_eq!(
        t.backend.extend(id, ttl(1)).await.unwrap(),
        ExtendOutcome::Missed(Miss::NotFound)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_locks_are_listed_in_pages() {
    let server = Server::shared().await;
    for prepare in [true, false] {
        let t = server.backend(|config| config.prepare = prepare).await;
        let mut expected = BTreeMap::new();
        for number in 0..25 {
            let held = request(&format!("it's key \\ nul \0 {number}"), 60_000);
            t.backend.acquire(&held).await.unwrap();
            expected.insert(held.key.as_str().to_owned(), held.lock_id);
        }
        t.backend
            .acquire(&request("expired", 60_000))
            .await
            .unwrap();
        server
            .sql(&format!(
                "UPDATE {} SET expires_at_ms = 1 WHERE key = 'expired'",
                t.locks
            ))
            .await;
        for limit in [1, 7, 25, 26, 1000] {
            let mut seen = BTreeMap::new();
            let mut after = None;
            loop {
                let page = t.backend.list(after.as_deref(), limit).await.unwrap();
                assert!(page.locks.len() <= limit);
                for lock in page.locks {
                    assert_eq!(lock.fence.value(), 1);
                    assert!(seen.insert(lock.key, lock.lock_id).is_none());
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert!(seen == expected, "limit {limit}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_release_ends_the_lock_of_its_holder() {
    let server = Server::shared().await;
    for prepare in [true, false] {
        let t = server.backend(|config| config.prepare = prepare).await;
        let (held, other) = (request("it's mine", 60_000), request("other", 60_000));
        t.backend.acquire(&held).await.unwrap();
        t.backend.acquire(&other).await.unwrap();
        assert!(t.backend.force_release(&held.key).await.unwrap());
        assert!(!t.backend.force_release(&held.key).await.unwrap());
        assert_eq!(
            t.backend.extend(held.lock_id, ttl(1000)).await.unwrap(),
            ExtendOutcome::Missed(Miss::NotFound)
        );
        assert!(t.backend.is_locked(&other.key).await.unwrap());
        let next = request("it's mine", 60_000);
        assert_eq!(fence(t.backend.acquire(&next).await.unwrap()), 2);

        server
            .sql(&format!("UPDATE {} SET expires_at_ms = 1", t.locks))
            .await;
        assert!(!t.backend.force_release(&held.key).await.unwrap());
    }
}
