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
async fn a_grant_that_is_about_to_expire_is_late() {
    let client = client(MemoryBackend::new());
    for (ttl_ms, late_at) in [(1000, 990), (100, 95)] {
        let hold = hold(&client, ttl(ttl_ms), None).await.unwrap().unwrap();
        sleep(Duration::from_millis(late_at - 1)).await;
        assert!(!client.is_late(&hold));
        sleep(Duration::from_millis(1)).await;
        assert!(client.is_late(&hold));
        Arc::clone(&client).end(hold).await.unwrap();
    }
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
        max_hold: Some(Duration::from_secs(10)),
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
        min_hold: Some(Duration::from_secs(2)),
        ..ttl(60_000).into()
    };
    let held = hold(&client, policy, None).await.unwrap().unwrap();
    let outcome = Arc::clone(&client).end(held).await.unwrap();
    assert_eq!(outcome, ReleaseOutcome::Released);
    let left = stored_for_ms(&client).await;
    assert!((1500..=2000).contains(&left), "{left}");
}

#[tokio::test(start_paused = true)]
async fn the_shortest_time_does_not_count_while_the_answer_is_awaited() {
    let client = client(BadLine {
        delay_ms: 3000,
        slow_acquires: 1.into(),
        ..Default::default()
    });
    let policy = HoldPolicy {
        min_hold: Some(Duration::from_secs(5)),
        ..kept(60_000)
    };
    let held = hold(&client, policy, None).await.unwrap().unwrap();
    Arc::clone(&client).end(held).await.unwrap();
    // The store's clock is not paused: for it, the release comes right after the grant.
    let left = stored_for_ms(&client).await;
    assert!((4900..6000).contains(&left), "{left}");
}

/// How long the store keeps the lock, from its grant.
async fn stored_for_ms(client: &Client) -> u64 {
    let record = client.lookup(&LookupQuery::Key(key())).await.unwrap();
    let record = record.expect("still there");
    record.expires_at_ms - record.acquired_at_ms
}

/// A hold the first heartbeat of which takes so long to arrive, while that is in flight.
async fn held_with_slow_heartbeat(delay_ms: u64) -> (Arc<Client>, Arc<Hold>) {
    let client = client(BadLine {
        delay_ms,
        slow_extends: 1.into(),
        ..Default::default()
    });
    let policy = HoldPolicy {
        min_hold: Some(Duration::from_secs(60)),
        ..kept(3000)
    };
    let held = hold(&client, policy, None).await.unwrap().unwrap();
    sleep(Duration::from_millis(1100)).await;
    assert!(held.extending.try_lock().is_err(), "no heartbeat in flight");
    (client, held)
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_in_flight_does_not_cut_the_shortest_time() {
    let (client, held) = held_with_slow_heartbeat(500).await;
    let outcome = Arc::clone(&client).end(held).await.unwrap();
    assert_eq!(outcome, ReleaseOutcome::Released);
    // The heartbeats that would follow, if the release did not end them.
    sleep(Duration::from_secs(10)).await;
    assert!(stored_for_ms(&client).await > 55_000);
}

/// Runs a task only after a while, as a busy thread does.
struct BusyHost(PausedHost);

const BUSY: Duration = Duration::from_millis(100);

impl Host for BusyHost {
    fn now(&self) -> Moment {
        self.0.now()
    }
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        self.0.sleep_until(moment)
    }
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.spawn(Box::pin(async move {
            sleep(BUSY).await;
            task.await;
        }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_only_runs_after_the_release_does_not_cut_the_shortest_time() {
    let host = BusyHost(PausedHost(tokio::time::Instant::now()));
    let client = Client::new(Arc::new(MemoryBackend::new()), Arc::new(host));
    let policy = HoldPolicy {
        min_hold: Some(Duration::from_secs(60)),
        ..kept(3000)
    };
    let held = hold(&client, policy, None).await.unwrap().unwrap();
    // The heartbeat is due, and its task was made.
    sleep(BUSY + Duration::from_millis(1050)).await;
    Arc::clone(&client).end(held).await.unwrap();
    sleep(BUSY).await;
    assert!(stored_for_ms(&client).await > 55_000);
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_is_stuck_does_not_hold_up_the_release() {
    let (client, held) = held_with_slow_heartbeat(20_000).await;
    let released = tokio::time::Instant::now();
    let outcome = Arc::clone(&client).end(held).await.unwrap();
    assert_eq!(outcome, ReleaseOutcome::Missed(Miss::Expired));
    assert!(released.elapsed() < Duration::from_secs(3));
    // In the background it has the last word all the same.
    sleep(Duration::from_secs(30)).await;
    assert!(stored_for_ms(&client).await > 35_000);
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_waits_behind_the_release_finds_nothing() {
    let (client, held) = held_with_slow_heartbeat(500).await;
    let lock_id = held.lock_id;
    let ending = tokio::spawn(Arc::clone(&client).end(held));
    tokio::task::yield_now().await;
    let extended = client.extend(lock_id, ttl(1000)).await.unwrap();
    assert_eq!(extended.unwrap_err(), Miss::NotFound);
    ending.await.unwrap().unwrap();
    assert!(stored_for_ms(&client).await > 55_000);
}
