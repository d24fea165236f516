//! Callers of one process that wait for the same key.

use super::*;

/// A caller whose first attempt was refused, while the answer to that is on its way.
async fn refused_with_slow_answer() -> (Arc<BadLine>, Arc<Client>, Grant) {
    let backend = Arc::new(BadLine {
        delay_ms: 1000,
        ..Default::default()
    });
    let client = client_of(Arc::clone(&backend) as Arc<dyn Backend>);
    let held = grant(&client, ttl(60_000)).await;
    backend.acquires.store(0, Ordering::SeqCst);
    backend.slow_acquires.store(1, Ordering::SeqCst);
    (backend, client, held)
}

#[tokio::test(start_paused = true)]
async fn the_release_of_another_key_causes_no_attempt() {
    let (backend, client, _held) = refused_with_slow_answer().await;
    let other = Key::new("another resource").unwrap();
    let waiter = waiting(&client, patient(30_000.0, 60_000));
    a_moment().await;
    let grant =
        Arc::clone(&client).acquire(LockRequest::exclusive(other.clone(), ttl(60_000)), None);
    let grant = grant.await.result.unwrap().unwrap();
    client.release(grant.lock_id, Some(other)).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    // That of the waiter, and that of the other key.
    assert_eq!(backend.acquires.load(Ordering::SeqCst), 2);
    waiter.abort();
}

#[tokio::test(start_paused = true)]
async fn a_release_between_the_refusal_and_the_queue_is_not_missed() {
    let (backend, client, held) = refused_with_slow_answer().await;
    let waiter = waiting(&client, patient(30_000.0, 60_000));
    a_moment().await;
    client.release(held.lock_id, Some(key())).await.unwrap();
    let started = tokio::time::Instant::now();
    waiter.await.unwrap().unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_eq!(backend.acquires.load(Ordering::SeqCst), 2);
}

/// Far more than it takes, and far less than if each waiter looked at all others, or at all holds.
#[cfg(unix)]
const FAST: Duration = Duration::from_secs(4);

/// What this thread has computed: time that other programs take does not count.
#[cfg(unix)]
fn computed() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn very_many_waiters_time_out_together_in_no_time() {
    const WAITERS: u32 = 30_000;
    let client = client(MemoryBackend::new());
    let holder = hold(&client, ttl(600_000), None).await.unwrap().unwrap();
    let waiters: Vec<_> = (0..WAITERS)
        .map(|number| {
            // The last ones first, and none of them retries.
            let timeout_ms = 3000 - u64::from(number / 20);
            waiting(&client, patient(60_000.0, timeout_ms))
        })
        .collect();
    a_moment().await;
    let before = computed();
    sleep(Duration::from_secs(4)).await;
    let took = computed() - before;
    assert_eq!(client.queues.len(), 0);
    for waiter in waiters {
        let error = waiter.await.unwrap().err().unwrap();
        assert_eq!(error.code, ErrorCode::AcquisitionTimeout);
    }
    assert!(took < FAST, "{took:?}");
    client.end(holder).await.unwrap();
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn waiters_time_out_in_no_time_where_very_many_locks_are_held() {
    const KEYS: u32 = 20_000;
    let client = client(MemoryBackend::new());
    let request = |number: u32, wait| HoldRequest {
        key: Key::new(&format!("resource {number}")).unwrap(),
        access: Access::Exclusive,
        policy: ttl(600_000).into(),
        wait,
        caller: 0,
    };
    let mut held = Vec::new();
    for number in 0..KEYS {
        let holding = Arc::clone(&client).hold(request(number, None), None);
        held.push(holding.await.result.unwrap().unwrap());
    }
    let before = computed();
    let waiters: Vec<_> = (0..KEYS)
        .map(|number| {
            let wait = Some(patient(60_000.0, 3000));
            tokio::spawn(Arc::clone(&client).hold(request(number, wait), None))
        })
        .collect();
    for waiter in waiters {
        let error = waiter.await.unwrap().result.err().unwrap();
        assert!(error.message.contains("it waited for itself"), "{error}");
    }
    let took = computed() - before;
    assert!(took < FAST, "{took:?}");
    for hold in held {
        Arc::clone(&client).end(hold).await.unwrap();
    }
    assert_eq!(client.holds.keys(), 0);
}
