//! Holds that share one timer until their first heartbeat.

use super::*;

async fn hold_key(client: &Arc<Client>, key: &str, policy: HoldPolicy) -> Arc<Hold> {
    let request = HoldRequest {
        key: Key::new(key).unwrap(),
        access: Access::Exclusive,
        policy,
        wait: None,
        caller: 0,
    };
    let settled = Arc::clone(client).hold(request, None).await;
    settled.result.unwrap().expect("nobody else holds it")
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_ends_before_its_first_heartbeat_needs_no_task() {
    let client = client(MemoryBackend::new());
    for _ in 0..100 {
        let held = hold(&client, kept(30_000), None).await.unwrap().unwrap();
        assert!(!held.is_kept());
        Arc::clone(&client).end(held).await.unwrap();
    }
    // The shared timer ends by itself, and then does not keep the client.
    sleep(Duration::from_secs(11)).await;
    assert_eq!(Arc::strong_count(&client), 1);
    assert_eq!(Arc::strong_count(&client.first_heartbeats), 1);
}

#[tokio::test(start_paused = true)]
async fn a_listener_needs_no_task_either_and_is_told_of_the_loss() {
    let client = client(BadLine {
        extends_lost: u32::MAX.into(),
        ..Default::default()
    });
    let held = hold(&client, kept(3000), None).await.unwrap().unwrap();
    let mut lost = listen(&client, &held);
    assert!(!held.is_kept());
    sleep(Duration::from_millis(2900)).await;
    assert!(lost.try_recv().is_err());
    sleep(Duration::from_millis(200)).await;
    assert_eq!(lost.try_recv().unwrap().code, ErrorCode::LockLost);
}

/// The shared timer was last set before the extension made the deadline earlier.
#[tokio::test(start_paused = true)]
async fn a_listener_is_told_of_a_deadline_that_was_moved_earlier() {
    for listens_first in [true, false] {
        let client = client(MemoryBackend::new());
        let held = hold(&client, ttl(30_000), None).await.unwrap().unwrap();
        let early = listens_first.then(|| listen(&client, &held));
        let extended = client.extend(held.lock_id, ttl(1000)).await.unwrap();
        assert!(extended.is_ok());
        let mut lost = early.unwrap_or_else(|| listen(&client, &held));
        sleep(Duration::from_millis(900)).await;
        assert!(lost.try_recv().is_err());
        sleep(Duration::from_millis(200)).await;
        assert_eq!(lost.try_recv().unwrap().code, ErrorCode::LockLost);
    }
}

#[tokio::test(start_paused = true)]
async fn every_hold_gets_its_heartbeats_in_time() {
    let client = client(MemoryBackend::new());
    let mut holds = Vec::new();
    // Each one is due before those that came earlier, and so moves the timer.
    for (index, ms) in [30_000, 3000, 300, 30_000].into_iter().enumerate() {
        holds.push(hold_key(&client, &format!("k{index}"), kept(ms)).await);
        sleep(Duration::from_millis(10)).await;
    }
    for _ in 0..2000 {
        sleep(Duration::from_millis(50)).await;
        for hold in &holds {
            let left = client.held_for(hold).expect("it is kept alive");
            assert!(left > hold.policy.ttl.duration() / 2, "{left:?}");
        }
    }
    for hold in holds {
        Arc::clone(&client).end(hold).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_to_a_shorter_time_moves_the_first_heartbeat() {
    let client = client(MemoryBackend::new());
    let held = hold(&client, kept(30_000), None).await.unwrap().unwrap();
    client
        .extend(held.lock_id, ttl(200))
        .await
        .unwrap()
        .unwrap();
    for _ in 0..100 {
        sleep(Duration::from_millis(50)).await;
        assert!(client.held_for(&held).is_some());
    }
}
