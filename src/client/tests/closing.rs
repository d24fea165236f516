//! The end of a client.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_closed_client_refuses_and_ends_waits() {
    let client = client(MemoryBackend::new());
    grant(&client, ttl(60_000)).await;
    let waiting = waiting(&client, patient(10_000.0, 60_000));
    a_moment().await;
    let closed_at = tokio::time::Instant::now();
    Arc::clone(&client).close(Duration::from_secs(10)).await;
    Arc::clone(&client).close(Duration::from_secs(10)).await;
    assert_eq!(code(waiting.await.unwrap()), ErrorCode::InvalidArgument);
    assert!(closed_at.elapsed() < Duration::from_secs(1));
    let error = client.is_locked(&key()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArgument);
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_holds_and_then_takes_them_away() {
    let backend = Arc::new(MemoryBackend::new());
    let client = client_of(Arc::clone(&backend) as Arc<dyn Backend>);
    let held = hold(&client, kept(60_000), None).await.unwrap().unwrap();
    let mut lost = listen(&client, &held);
    let first = tokio::spawn(Arc::clone(&client).close(Duration::from_secs(10)));
    let second = tokio::spawn(Arc::clone(&client).close(Duration::from_secs(10)));
    sleep(Duration::from_secs(9)).await;
    assert!(!first.is_finished() && !second.is_finished());
    assert_eq!(
        code(hold(&client, ttl(1000), None).await),
        ErrorCode::InvalidArgument
    );
    client
        .extend(held.lock_id, ttl(60_000))
        .await
        .unwrap()
        .unwrap();
    first.await.unwrap();
    second.await.unwrap();
    assert!(lost.try_recv().unwrap().message.contains("closed"));
    assert!(!backend.is_locked(&key()).await.unwrap());
    // Its holder has nothing left to give back.
    client.end(held).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn closing_ends_when_the_last_hold_does() {
    let client = client(MemoryBackend::new());
    let held = hold(&client, ttl(60_000), None).await.unwrap().unwrap();
    let closing = tokio::spawn(Arc::clone(&client).close(Duration::from_secs(10)));
    a_moment().await;
    let ended = tokio::time::Instant::now();
    let outcome = Arc::clone(&client).end(held).await.unwrap();
    assert_eq!(outcome, ReleaseOutcome::Released);
    closing.await.unwrap();
    assert!(ended.elapsed() < Duration::from_secs(1));
}
