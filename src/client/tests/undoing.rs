//! What nobody owns.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_hold_that_nobody_took_is_given_back_although_the_first_release_fails() {
    let client = client(BadLine {
        releases_lost: AtomicU32::new(1),
        ..BadLine::default()
    });
    let held = hold(&client, ttl(60_000), None).await.unwrap().unwrap();
    client.abandon(&held).await;
    assert!(!client.is_locked(&key()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_undone_once_the_server_is_back() {
    let client = client(BadLine {
        acquires_lost: 1.into(),
        releases_lost: 3.into(),
        ..Default::default()
    });
    let lock = LockRequest::exclusive(key(), ttl(60_000));
    let settled = Arc::clone(&client).acquire(lock, None).await;
    assert_eq!(
        settled.result.unwrap_err().code,
        ErrorCode::ServiceUnavailable
    );
    assert!(client.is_locked(&key()).await.unwrap());
    settled.undo.expect("an undo is under way").await;
    assert!(!client.is_locked(&key()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_wait_goes_on_after_attempts_whose_answers_were_lost() {
    let client = client(BadLine {
        acquires_lost: 2.into(),
        releases_lost: 3.into(),
        ..Default::default()
    });
    // What the lost ones acquired is in the way until it is undone.
    let held = hold(&client, ttl(60_000), Some(patient(30_000.0, 60_000))).await;
    let held = held.unwrap().unwrap();
    assert!(client.is_locked(&key()).await.unwrap());
    client.abandon(&held).await;
    assert!(!client.is_locked(&key()).await.unwrap());

    let client = super::client(BadLine {
        acquires_lost: 100.into(),
        ..Default::default()
    });
    let error = hold(&client, ttl(60_000), Some(patient(100.0, 60_000))).await;
    assert_eq!(error.err().unwrap().code, ErrorCode::ServiceUnavailable);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_acquire_leaves_nothing_behind() {
    let client = client(BadLine {
        delay_ms: 100,
        slow_acquires: 1.into(),
        ..Default::default()
    });
    let cancel = CancellationToken::new();
    let lock = LockRequest::exclusive(key(), ttl(60_000));
    let acquire = tokio::spawn(Arc::clone(&client).acquire(lock, Some(cancel.clone())));
    sleep(Duration::from_millis(10)).await;
    cancel.cancel();
    let settled = acquire.await.unwrap();
    assert_eq!(settled.result.unwrap_err().code, ErrorCode::Aborted);
    settled.undo.expect("an undo is under way").await;
    assert!(!client.is_locked(&key()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn what_was_extended_is_undone_for_as_long_as_it_lasts() {
    let client = client(BadLine {
        releases_lost: 8.into(),
        ..Default::default()
    });
    let policy = HoldPolicy {
        max_hold: Some(Duration::from_secs(1)),
        ..ttl(300).into()
    };
    let held = hold(&client, policy, None).await.unwrap().unwrap();
    let extended = client.extend(held.lock_id, ttl(60_000)).await;
    extended.unwrap().unwrap();
    sleep(Duration::from_secs(20)).await;
    assert!(!client.is_locked(&key()).await.unwrap());
}
