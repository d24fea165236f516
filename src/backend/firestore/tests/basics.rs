use std::time::Duration;

use super::{Server, acquire, key, refused, sleep_ms, ttl};
use crate::backend::{Backend, ExtendOutcome, LookupQuery, Miss, ReleaseOutcome};
use crate::lock::LockId;
use crate::lock::time::system_now_ms;

#[tokio::test]
async fn a_lock_and_the_calls_it_takes() {
    let server = Server::start().await;
    let backend = server.backend();
    let before_ms = system_now_ms();
    let held = acquire(&backend, "a", 30_000).await.unwrap().unwrap();
    assert_eq!(server.calls(), ["BatchGetDocuments", "Commit"]);
    assert_eq!(held.fence.to_string(), "000000000000001");
    assert!((before_ms + 30_000..=system_now_ms() + 30_000).contains(&held.expires_at_ms));

    assert!(acquire(&backend, "a", 1000).await.unwrap().is_none());
    assert!(backend.is_locked(&key("a")).await.unwrap());
    assert!(!backend.is_locked(&key("b")).await.unwrap());
    assert_eq!(server.calls(), ["BatchGetDocuments"; 3]);

    let by_key = backend.lookup(&LookupQuery::Key(key("a"))).await.unwrap();
    let by_id = backend
        .lookup(&LookupQuery::LockId(held.lock_id))
        .await
        .unwrap();
    assert_eq!(server.calls(), ["BatchGetDocuments", "RunQuery"]);
    let record = by_key.unwrap();
    assert!(by_id.unwrap() == record);
    assert!(record.lock_id == held.lock_id && record.fence == held.fence && record.key == "a");
    assert_eq!(record.expires_at_ms, held.expires_at_ms);
    assert_eq!(record.expires_at_ms - record.acquired_at_ms, 30_000);

    let extended = backend.extend(held.lock_id, ttl(90_000)).await.unwrap();
    assert!(
        matches!(extended, ExtendOutcome::Extended { expires_at_ms } if expires_at_ms >= before_ms + 90_000)
    );
    let released = backend.release(held.lock_id.into()).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Released);
    assert_eq!(server.calls(), ["Commit"; 2]);

    let again = backend.release(held.lock_id.into()).await.unwrap();
    assert_eq!(again, ReleaseOutcome::Missed(Miss::NotFound));
    let gone = backend.extend(held.lock_id, ttl(1)).await.unwrap();
    assert_eq!(gone, ExtendOutcome::Missed(Miss::NotFound));
    let second = acquire(&backend, "a", 30_000).await.unwrap().unwrap();
    assert_eq!(second.fence.to_string(), "000000000000002");
}

#[tokio::test]
async fn locks_of_others_are_found_by_their_id() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.backend());
    let held = acquire(&one, "a", 30_000).await.unwrap().unwrap();
    server.calls();
    let extended = two.extend(held.lock_id, ttl(60_000)).await.unwrap();
    assert!(matches!(extended, ExtendOutcome::Extended { .. }));
    assert_eq!(server.calls(), ["RunQuery", "Commit"]);
    // What `one` remembers is out of date now. It notices and reads the document again.
    let released = one.release(held.lock_id.into()).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Released);
    assert_eq!(server.calls(), ["Commit", "BatchGetDocuments", "Commit"]);
    let released = two.release(held.lock_id.into()).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Missed(Miss::NotFound));
    let unknown = two.release(LockId::generate().into()).await.unwrap();
    assert_eq!(unknown, ReleaseOutcome::Missed(Miss::NotFound));
}

#[tokio::test]
async fn an_expired_lock_is_replaced_and_stays_lost() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.backend());
    let held = acquire(&one, "a", 500).await.unwrap().unwrap();
    // Within the tolerance the lock still counts as held.
    assert!(acquire(&two, "a", 1).await.unwrap().is_none());
    sleep_ms(1600).await;
    assert!(!one.is_locked(&key("a")).await.unwrap());
    let by_id = LookupQuery::LockId(held.lock_id);
    assert!(one.lookup(&by_id).await.unwrap().is_none());
    for backend in [&one, &two] {
        let released = backend.release(held.lock_id.into()).await.unwrap();
        assert_eq!(released, ReleaseOutcome::Missed(Miss::Expired));
        let extended = backend.extend(held.lock_id, ttl(1000)).await.unwrap();
        assert_eq!(extended, ExtendOutcome::Missed(Miss::Expired));
    }
    let next = acquire(&two, "a", 30_000).await.unwrap().unwrap();
    assert!(next.fence > held.fence);
    let released = one.release(held.lock_id.into()).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Missed(Miss::NotFound));
    assert!(one.is_locked(&key("a")).await.unwrap());
}

#[tokio::test]
async fn a_refused_attempt_returns_when_the_lock_expires() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.backend());
    let held = acquire(&one, "a", 2_000).await.unwrap().unwrap();
    let asked_ms = system_now_ms();
    let free_in = refused(&two, "a").await;
    let answered_ms = system_now_ms();
    let at = |now_ms| Duration::from_millis(held.expires_at_ms + 1_000 - now_ms);
    assert!((at(answered_ms)..=at(asked_ms)).contains(&free_in));

    one.extend(held.lock_id, ttl(60_000)).await.unwrap();
    assert!(refused(&two, "a").await > Duration::from_secs(59));
    one.extend(held.lock_id, ttl(1)).await.unwrap();
    // An attempt after that time succeeds.
    tokio::time::sleep(refused(&two, "a").await).await;
    assert!(acquire(&two, "a", 1_000).await.unwrap().is_some());
}

#[tokio::test]
async fn every_key_can_be_locked() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.backend());
    let long = "\u{10FFFF}".repeat(128);
    let keys = [
        "/",
        "a/b",
        ".",
        "..",
        "__x__",
        "____",
        "a b",
        "%2F",
        "\u{0}",
        "\n",
        "#[]*?`\"\\",
        "é",
        "日本",
        "😀",
        &long,
    ];
    let planes: Vec<String> = (0..=16)
        .filter_map(|plane| char::from_u32(plane * 0x1_0000 + 0x100))
        .map(String::from)
        .collect();
    assert_eq!(planes.len(), 17);
    for text in keys.into_iter().chain(planes.iter().map(String::as_str)) {
        let held = acquire(&one, text, 30_000).await.unwrap().unwrap();
        assert_eq!(held.fence.value(), 1, "{text:?}");
        assert!(acquire(&two, text, 30_000).await.unwrap().is_none());
        let record = two.lookup(&LookupQuery::Key(key(text))).await.unwrap();
        assert!(record.unwrap().key == text);
    }
}

#[tokio::test]
async fn databases_and_collections_are_independent() {
    let server = Server::start().await;
    let usual = server.backend();
    let named = server.backend_with(|config| config.database_id = Some("named".to_owned()));
    let other = server.backend_with(|config| {
        config.collection = "other".to_owned();
        config.fence_collection = "other_fences".to_owned();
    });
    for backend in [usual, named, other] {
        let held = acquire(&backend, "a", 30_000).await.unwrap().unwrap();
        assert_eq!(held.fence.value(), 1);
    }
}

#[tokio::test]
async fn is_locked_cleans_up_only_if_configured_and_only_long_expired_locks() {
    let server = Server::start().await;
    let plain = server.backend();
    let cleaning = server.backend_with(|config| config.cleanup_in_is_locked = true);
    let held = acquire(&plain, "a", 1).await.unwrap().unwrap();
    sleep_ms(1100).await;
    assert!(!cleaning.is_locked(&key("a")).await.unwrap());
    sleep_ms(1000).await;
    server.calls();
    assert!(!plain.is_locked(&key("a")).await.unwrap());
    sleep_ms(50).await;
    assert_eq!(server.calls(), ["BatchGetDocuments"]);
    assert!(!cleaning.is_locked(&key("a")).await.unwrap());
    while server.calls() != ["Commit"] {
        sleep_ms(5).await;
    }
    // The document is gone, not just expired, and the counter continues.
    let released = cleaning.release(held.lock_id.into()).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Missed(Miss::NotFound));
    let next = acquire(&plain, "a", 1).await.unwrap().unwrap();
    assert_eq!(next.fence.value(), 2);
}
