//! Until when a lock is held.

use super::*;

/// Real time: the memory backend's clock is not tokio's.
#[tokio::test]
async fn a_hold_outlives_the_ttl_and_survives_a_failed_heartbeat() {
    let client = client(BadLine {
        extends_lost: 1.into(),
        ..Default::default()
    });
    let held = hold(&client, kept(900), None).await.unwrap().unwrap();
    let expiry = held.expires_at_ms();
    sleep(Duration::from_millis(2500)).await;
    assert!(client.is_locked(&key()).await.unwrap());
    assert!(client.held_for(&held).is_some());
    assert!(held.expires_at_ms() > expiry);
    Arc::clone(&client).end(held).await.unwrap();
    assert!(!client.is_locked(&key()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_hold_tells_when_the_lock_is_lost() {
    let bad_line = client(BadLine {
        extends_lost: u32::MAX.into(),
        ..Default::default()
    });
    let started = tokio::time::Instant::now();
    let held = hold(&bad_line, kept(3000), None).await.unwrap().unwrap();
    let error = listen(&bad_line, &held).recv().await.unwrap();
    assert_eq!(error.code, ErrorCode::LockLost);
    let Some(Cause::Error(cause)) = error.cause else {
        panic!("no cause")
    };
    assert_eq!(cause.message, "connection lost");
    assert!(started.elapsed() >= Duration::from_millis(2900));
    assert!(started.elapsed() <= Duration::from_millis(3100));
    assert!(bad_line.held_for(&held).is_none());

    let memory = client(MemoryBackend::new());
    let held = hold(&memory, kept(3000), None).await.unwrap().unwrap();
    let mut lost = listen(&memory, &held);
    memory.force_release(&key()).await.unwrap();
    let error = lost.recv().await.unwrap();
    assert!(error.message.contains("released elsewhere"), "{error}");
    assert_eq!(memory.lost(&held).unwrap().message, error.message);
}

#[tokio::test(start_paused = true)]
async fn a_hold_without_a_heartbeat_ends_with_its_ttl_unless_it_is_extended() {
    let client = client(MemoryBackend::new());
    let held = hold(&client, ttl(1000), None).await.unwrap().unwrap();
    let mut lost = listen(&client, &held);
    sleep(Duration::from_millis(800)).await;
    client
        .extend(held.lock_id, ttl(1000))
        .await
        .unwrap()
        .unwrap();
    sleep(Duration::from_millis(900)).await;
    assert!(lost.try_recv().is_err());
    assert!(client.held_for(&held).is_some());
    sleep(Duration::from_millis(200)).await;
    assert_eq!(lost.try_recv().unwrap().code, ErrorCode::LockLost);
}

#[tokio::test(start_paused = true)]
async fn a_shorter_time_counts_also_when_the_answer_is_lost() {
    let client = client(BadLine {
        extends_lost: 1.into(),
        ..Default::default()
    });
    let held = hold(&client, ttl(60_000), None).await.unwrap().unwrap();
    client.extend(held.lock_id, ttl(1000)).await.unwrap_err();
    assert!(client.held_for(&held).is_some());
    sleep(Duration::from_millis(1001)).await;
    assert!(client.held_for(&held).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_given_up_after_its_longest_time() {
    let client = client(MemoryBackend::new());
    let policy = HoldPolicy {
        longest: Some(Duration::from_secs(10)),
        ..kept(60_000)
    };
    let held = hold(&client, policy, None).await.unwrap().unwrap();
    let started = tokio::time::Instant::now();
    let error = listen(&client, &held).recv().await.unwrap();
    assert!(error.message.contains("maxHoldMs"), "{error}");
    assert!(started.elapsed() <= Duration::from_secs(11));
    a_moment().await;
    assert!(!client.is_locked(&key()).await.unwrap());
    let outcome = Arc::clone(&client).end(held).await.unwrap();
    assert_ne!(outcome, ReleaseOutcome::Released);
}

#[tokio::test]
async fn a_hold_is_not_given_back_before_its_shortest_time() {
    let client = client(MemoryBackend::new());
    let policy = HoldPolicy {
        shortest: Some(Duration::from_secs(2)),
        ..ttl(60_000).into()
    };
    let held = hold(&client, policy, None).await.unwrap().unwrap();
    let outcome = Arc::clone(&client).end(held).await.unwrap();
    assert_eq!(outcome, ReleaseOutcome::Released);
    let record = client.lookup(&LookupQuery::Key(key())).await.unwrap();
    let record = record.expect("still there");
    let left = record.expires_at_ms - record.acquired_at_ms;
    assert!((1500..=2000).contains(&left), "{left}");
}
