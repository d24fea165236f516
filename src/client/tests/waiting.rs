//! Waiting, and who is next.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_timeout_is_a_wall_for_an_attempt_in_flight() {
    let client = client(BadLine {
        delay_ms: 60_000,
        slow_acquires: 1.into(),
        ..Default::default()
    });
    let started = tokio::time::Instant::now();
    let error = hold(&client, ttl(600_000), Some(patient(10.0, 500)))
        .await
        .err()
        .unwrap();
    assert_eq!(error.code, ErrorCode::AcquisitionTimeout);
    assert!(error.message.contains("did not answer"), "{error}");
    assert!(error.message.contains("refused there"), "{error}");
    assert!(matches!(error.cause, Some(Cause::Error(_))));
    assert!(started.elapsed() < Duration::from_secs(1));
    sleep(Duration::from_secs(90)).await;
    assert!(!client.is_locked(&key()).await.unwrap(), "it was undone");
    client.close(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_hands_over_at_once() {
    let client = client(MemoryBackend::new());
    let held = grant(&client, ttl(60_000)).await;
    let next = waiting(&client, patient(10_000.0, 60_000));
    a_moment().await;
    let released = tokio::time::Instant::now();
    client.release(held.lock_id, Some(key())).await.unwrap();
    next.await.unwrap().unwrap();
    assert!(released.elapsed() < Duration::from_secs(1));
    assert_eq!(client.queues.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn where_order_is_kept_the_next_does_not_wait_for_the_answer_to_a_release() {
    for keeps_order in [true, false] {
        let client = client(BadLine {
            delay_ms: 10_000,
            slow_releases: AtomicU32::new(1),
            keeps_order,
            ..BadLine::default()
        });
        let held = grant(&client, ttl(60_000)).await;
        let next = waiting(&client, patient(30_000.0, 60_000));
        a_moment().await;
        let started = tokio::time::Instant::now();
        let release = client.release(held.lock_id, Some(key()));
        let (released, next) = tokio::join!(release, async {
            next.await.unwrap().unwrap();
            started.elapsed()
        });
        assert_eq!(released, Ok(ReleaseOutcome::Released));
        assert_eq!(next < Duration::from_secs(1), keeps_order, "{next:?}");
        assert_eq!(client.queues.len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_the_order_in_which_they_came() {
    let client = client(MemoryBackend::new());
    let first = hold(&client, ttl(60_000), None).await.unwrap().unwrap();
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..20 {
        let (client, served) = (Arc::clone(&client), served.clone());
        tokio::spawn(async move {
            // Those who came late ask more often.
            let policy = patient(1000.0 - f64::from(number) * 50.0, 60_000);
            let held = hold(&client, ttl(60_000), Some(policy)).await;
            served.send(number).unwrap();
            a_moment().await;
            client.end(held.unwrap().unwrap()).await.unwrap();
        });
        tokio::task::yield_now().await;
    }
    a_moment().await;
    Arc::clone(&client).end(first).await.unwrap();
    for number in 0..20 {
        assert_eq!(order.recv().await, Some(number));
    }
}

#[tokio::test(start_paused = true)]
async fn one_who_gives_up_passes_the_turn_on() {
    let client = client(MemoryBackend::new());
    let held = hold(&client, ttl(60_000), None).await.unwrap().unwrap();
    let first = waiting(&client, patient(10_000.0, 60_000));
    a_moment().await;
    let second = waiting(&client, patient(10_000.0, 60_000));
    a_moment().await;
    // Woken, and gone before it could try.
    Arc::clone(&client).end(held).await.unwrap();
    first.abort();
    let started = tokio::time::Instant::now();
    second.await.unwrap().unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_the_store_tells_of_causes_an_attempt() {
    let backend = Arc::new(MemoryBackend::new());
    let client = client_of(Arc::clone(&backend) as Arc<dyn Backend>);
    let held = grant(&client, ttl(60_000)).await;
    let next = waiting(&client, patient(10_000.0, 60_000));
    a_moment().await;
    // Not through this client: it hears of it by the watch alone.
    backend.release(held.lock_id.into()).await.unwrap();
    let started = tokio::time::Instant::now();
    next.await.unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn the_end_of_the_holders_ttl_causes_an_attempt() {
    let client = client(MemoryBackend::new());
    grant(&client, ttl(200)).await;
    let started = std::time::Instant::now();
    let policy = WaitPolicy {
        max_retries: 1,
        ..patient(10_000.0, 60_000)
    };
    let got = hold(&client, ttl(60_000), Some(policy)).await.unwrap();
    // With the tolerance.
    assert!(started.elapsed() >= Duration::from_millis(1200));
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(got.unwrap().progress.attempts <= 3);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_what_this_client_holds_all_the_time_says_so() {
    let client = client(MemoryBackend::new());
    let timed_out = async || {
        let waited = hold(&client, ttl(1000), Some(patient(10.0, 100))).await;
        waited.err().unwrap().message
    };
    let before = client.host.now();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let outer = hold(&client, ttl(60_000), None).await.unwrap().unwrap();
    let message = timed_out().await;
    assert!(message.contains("it waited for itself"), "{message}");
    assert!(!client.holds_since(&key(), before));

    // The lock of a single acquire is no hold.
    Arc::clone(&client).end(outer).await.unwrap();
    grant(&client, ttl(60_000)).await;
    let message = timed_out().await;
    assert!(message.contains("another holder had the lock"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_runs_out_of_time_names_the_time_and_the_holders_lease() {
    let client = client(MemoryBackend::new());
    grant(&client, ttl(60_000)).await;
    let first = hold(&client, ttl(1000), Some(patient(10.0, 400)));
    // It never makes an attempt of its own, and still knows the lease.
    let second = hold(&client, ttl(1000), Some(patient(10.0, 300)));
    let (first, second) = tokio::join!(first, second);
    for (waited, took) in [(first, 400), (second, 300)] {
        let error = waited.err().unwrap();
        let message = &error.message;
        assert!(message.contains(&format!(" in {took} ms: ")), "{message}");
        let limit = format!("acquisition.timeoutMs ({took}) ran out while another holder");
        assert!(message.contains(&limit), "{message}");
        // The memory backend frees an expired lock one second late.
        assert!(message.contains("Its lease ends in 6"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_the_retries_or_the_signal() {
    let client = client(MemoryBackend::new());
    grant(&client, ttl(60_000)).await;
    let few = WaitPolicy {
        max_retries: 3,
        ..patient(10.0, 60_000)
    };
    let error = hold(&client, ttl(1000), Some(few)).await.err().unwrap();
    assert_eq!(error.code, ErrorCode::AcquisitionTimeout);
    for part in [
        "Failed to acquire lock after 4 attempts in ",
        "acquisition.maxRetries (3) was reached while another holder had the lock",
        "or raise acquisition.maxRetries",
    ] {
        assert!(error.message.contains(part), "{error}");
    }

    let cancel = CancellationToken::new();
    let request = HoldRequest {
        key: key(),
        access: Access::Exclusive,
        policy: ttl(1000).into(),
        wait: Some(patient(10_000.0, 60_000)),
        caller: 0,
    };
    let waiting = tokio::spawn(Arc::clone(&client).hold(request, Some(cancel.clone())));
    a_moment().await;
    cancel.cancel();
    assert_eq!(code(waiting.await.unwrap().result), ErrorCode::Aborted);
    assert_eq!(client.queues.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_comes_too_late_is_given_back_and_the_wait_goes_on() {
    let client = client(BadLine {
        delay_ms: 2000,
        slow_acquires: 1.into(),
        ..Default::default()
    });
    let got = hold(&client, ttl(1000), Some(patient(10.0, 60_000))).await;
    let got = got.unwrap().unwrap();
    assert!(client.held_for(&got).is_some());
    assert_eq!(got.progress.attempts, 2);
    assert_eq!(got.fence.value(), 2);

    // The same when only the caller came too late.
    sleep(Duration::from_millis(1500)).await;
    let again = Arc::clone(&client).hold_again(got, 0, None).await;
    let again = again.result.unwrap().unwrap();
    assert!(client.held_for(&again).is_some());
    assert!(again.progress.attempts >= 3);
}
