//! Callers that share a key, and callers with several keys.

use tokio_util::sync::CancellationToken;

use super::*;

const TWO: Access = Access::Shared { limit: 2 };

/// A caller that waits for a share of the key, in a task of its own.
fn waiting_to_share(client: &Arc<Client>) -> tokio::task::JoinHandle<Result<Option<Arc<Hold>>>> {
    let request = HoldRequest {
        key: key(),
        access: TWO,
        policy: ttl(60_000).into(),
        wait: Some(patient(30_000.0, 60_000)),
        caller: 0,
    };
    let client = Arc::clone(client);
    tokio::spawn(async move { client.hold(request, None).await.result })
}

async fn share(client: &Arc<Client>) -> Arc<Hold> {
    waiting_to_share(client).await.unwrap().unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_share_that_is_released_during_a_grant_goes_to_the_next_waiter() {
    let backend = Arc::new(BadLine {
        delay_ms: 1000,
        ..Default::default()
    });
    let client = client_of(Arc::clone(&backend) as Arc<dyn Backend>);
    let held = [share(&client).await, share(&client).await];
    let first = waiting_to_share(&client);
    a_moment().await;
    let second = waiting_to_share(&client);
    a_moment().await;
    backend.slow_acquires.store(1, Ordering::SeqCst);
    for hold in held {
        Arc::clone(&client).end(hold).await.unwrap();
        a_moment().await;
    }
    let started = tokio::time::Instant::now();
    let slots = [first, second].map(|waiter| async { waiter.await.unwrap().unwrap().unwrap() });
    for hold in futures_util::future::join_all(slots).await {
        assert!(hold.share.is_some());
    }
    assert!(started.elapsed() < Duration::from_secs(2));
}

fn two_keys(wait: Option<WaitPolicy>) -> SeveralRequest {
    let keys = ["a", "b"].map(|name| Key::new(name).unwrap());
    let policy = ttl(60_000).into();
    SeveralRequest::new(keys.to_vec(), Access::Exclusive, policy, wait, 0)
}

async fn stored(backend: &BadLine) -> usize {
    backend.memory.list(None, 10).await.unwrap().locks.len()
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_several_keys_ends_on_time_although_the_store_is_silent() {
    let backend = Arc::new(BadLine {
        delay_ms: 20_000,
        slow_acquires: AtomicU32::new(2),
        ..Default::default()
    });
    let client = client_of(Arc::clone(&backend) as Arc<dyn Backend>);
    let started = tokio::time::Instant::now();
    let request = two_keys(Some(patient(100.0, 300)));
    let settled = Arc::clone(&client).hold_several(request, None).await;
    assert_eq!(code(settled.result), ErrorCode::AcquisitionTimeout);
    assert!(started.elapsed() < Duration::from_secs(1));
    sleep(Duration::from_secs(30)).await;
    assert_eq!(stored(&backend).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_several_keys_is_cancelled_while_their_locks_are_renewed() {
    let backend = Arc::new(BadLine {
        delay_ms: 20_000,
        slow_extends: AtomicU32::new(2),
        ..Default::default()
    });
    let client = client_of(Arc::clone(&backend) as Arc<dyn Backend>);
    let other = LockRequest::exclusive(Key::new("b").unwrap(), ttl(60_000));
    let other = Arc::clone(&client).acquire(other, None).await.result;
    let other = other.unwrap().unwrap();
    let cancel = CancellationToken::new();
    let request = two_keys(Some(patient(100.0, 60_000)));
    let set = tokio::spawn(Arc::clone(&client).hold_several(request, Some(cancel.clone())));
    a_moment().await;
    client.release(other.lock_id, None).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    // Both locks are there, and the answers to their extensions are on their way.
    assert_eq!(stored(&backend).await, 2);
    assert!(!set.is_finished());
    let started = tokio::time::Instant::now();
    cancel.cancel();
    assert_eq!(code(set.await.unwrap().result), ErrorCode::Aborted);
    assert!(started.elapsed() < Duration::from_millis(20));
    sleep(Duration::from_secs(30)).await;
    assert_eq!(stored(&backend).await, 0);
}
