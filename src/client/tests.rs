use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use std::time::Duration;
use tokio::time::sleep;

use super::*;
use crate::backend::memory::MemoryBackend;
use crate::lock::retry::{Backoff, Jitter, RetryPolicy};

fn key() -> Key {
    Key::new("resource").unwrap()
}

fn ttl(ms: u32) -> Ttl {
    Ttl::from_number(f64::from(ms)).unwrap()
}

fn patient(retry_delay_ms: f64, timeout_ms: u64) -> WaitPolicy {
    WaitPolicy {
        retry: RetryPolicy {
            retry_delay_ms,
            backoff: Backoff::Fixed,
            jitter: Jitter::None,
        },
        max_retries: 1000,
        timeout: Duration::from_millis(timeout_ms),
    }
}

/// The memory backend behind a bad line: answers come late, or are lost after the work was done.
#[derive(Default)]
struct BadLine {
    memory: MemoryBackend,
    acquires_lost: AtomicU32,
    releases_lost: AtomicU32,
    extends_lost: AtomicU32,
    delay_ms: u64,
}

impl BadLine {
    async fn answer<T>(&self, lost: &AtomicU32, answer: T) -> Result<T> {
        sleep(Duration::from_millis(self.delay_ms)).await;
        let fail = lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        match fail {
            Ok(_) => Err(Error::unavailable("connection lost").outcome_unknown()),
            Err(_) => Ok(answer),
        }
    }
}

#[async_trait]
impl Backend for BadLine {
    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let outcome = self.memory.acquire(request).await?;
        self.answer(&self.acquires_lost, outcome).await
    }
    async fn release(&self, lock_id: LockId) -> Result<ReleaseOutcome> {
        if self.releases_lost.load(Ordering::SeqCst) > 0 {
            return self
                .answer(&self.releases_lost, ReleaseOutcome::Released)
                .await;
        }
        self.memory.release(lock_id).await
    }
    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        if self.extends_lost.load(Ordering::SeqCst) > 0 {
            let missed = ExtendOutcome::Missed(crate::backend::Miss::NotFound);
            return self.answer(&self.extends_lost, missed).await;
        }
        self.memory.extend(lock_id, ttl).await
    }
    async fn is_locked(&self, key: &Key) -> Result<bool> {
        self.memory.is_locked(key).await
    }
    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        self.memory.lookup(query).await
    }
    async fn close(&self) {}
}

fn client(backend: impl Backend) -> Arc<Client> {
    Client::new(Arc::new(backend))
}

async fn grant(client: &Arc<Client>, ttl: Ttl) -> Grant {
    let settled = Arc::clone(client).acquire(key(), ttl, None).await;
    settled.result.unwrap().expect("nobody else holds it")
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_undone_once_the_server_is_back() {
    let client = client(BadLine {
        acquires_lost: 1.into(),
        releases_lost: 3.into(),
        ..Default::default()
    });
    let settled = Arc::clone(&client).acquire(key(), ttl(60_000), None).await;
    assert_eq!(
        settled.result.unwrap_err().code,
        ErrorCode::ServiceUnavailable
    );
    assert!(client.is_locked(&key()).await.unwrap());
    settled.undo.expect("an undo is under way").await;
    assert!(!client.is_locked(&key()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_acquire_leaves_nothing_behind() {
    let client = client(BadLine {
        delay_ms: 100,
        ..Default::default()
    });
    let cancel = CancellationToken::new();
    let acquire =
        tokio::spawn(Arc::clone(&client).acquire(key(), ttl(60_000), Some(cancel.clone())));
    sleep(Duration::from_millis(10)).await;
    cancel.cancel();
    let settled = acquire.await.unwrap();
    assert_eq!(settled.result.unwrap_err().code, ErrorCode::Aborted);
    settled.undo.expect("an undo is under way").await;
    assert!(!client.is_locked(&key()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_timeout_is_a_wall_for_an_attempt_in_flight() {
    let client = client(BadLine {
        delay_ms: 60_000,
        ..Default::default()
    });
    let started = tokio::time::Instant::now();
    let cancel = CancellationToken::new();
    let settled = Arc::clone(&client)
        .acquire_wait(key(), ttl(600_000), patient(10.0, 500), cancel)
        .await;
    assert_eq!(
        settled.result.unwrap_err().code,
        ErrorCode::AcquisitionTimeout
    );
    assert!(started.elapsed() < Duration::from_secs(1));
    client.undoing.finish().await;
    sleep(Duration::from_secs(60)).await;
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_release_hands_over_at_once() {
    let client = client(MemoryBackend::new());
    let held = grant(&client, ttl(60_000)).await;
    let waiting = tokio::spawn(Arc::clone(&client).acquire_wait(
        key(),
        ttl(1000),
        patient(10_000.0, 60_000),
        CancellationToken::new(),
    ));
    sleep(Duration::from_millis(50)).await;
    let released = tokio::time::Instant::now();
    client.release(held.lock_id, Some(key())).await.unwrap();
    waiting.await.unwrap().result.unwrap();
    assert!(released.elapsed() < Duration::from_secs(1));
    assert_eq!(client.waiters.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_the_retries_or_the_signal() {
    let client = client(MemoryBackend::new());
    grant(&client, ttl(60_000)).await;
    let few = WaitPolicy {
        max_retries: 3,
        ..patient(10.0, 60_000)
    };
    let settled = Arc::clone(&client)
        .acquire_wait(key(), ttl(1000), few, CancellationToken::new())
        .await;
    let error = settled.result.unwrap_err();
    assert_eq!(error.code, ErrorCode::AcquisitionTimeout);
    assert!(
        error
            .message
            .contains("Failed to acquire lock after 4 attempts"),
        "{error}"
    );

    let cancel = CancellationToken::new();
    let waiting = tokio::spawn(Arc::clone(&client).acquire_wait(
        key(),
        ttl(1000),
        patient(10_000.0, 60_000),
        cancel.clone(),
    ));
    sleep(Duration::from_millis(50)).await;
    cancel.cancel();
    assert_eq!(
        waiting.await.unwrap().result.unwrap_err().code,
        ErrorCode::Aborted
    );
    assert_eq!(client.waiters.len(), 0);
}

/// Real time: the memory backend's clock is not tokio's.
#[tokio::test]
async fn a_hold_outlives_the_ttl_and_survives_a_failed_heartbeat() {
    let client = client(BadLine {
        extends_lost: 1.into(),
        ..Default::default()
    });
    let held = grant(&client, ttl(900)).await;
    let hold = Hold::default();
    let task = tokio::spawn(Arc::clone(&client).hold(
        held.lock_id,
        ttl(900),
        held.valid_until,
        hold.clone(),
    ));
    sleep(Duration::from_millis(2500)).await;
    assert!(client.is_locked(&key()).await.unwrap());
    assert!(hold.expires_at_ms() > held.expires_at_ms);
    hold.stop.cancel();
    assert_eq!(task.await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_hold_tells_when_the_lock_is_lost() {
    let client = client(BadLine {
        extends_lost: u32::MAX.into(),
        ..Default::default()
    });
    let held = grant(&client, ttl(3000)).await;
    let started = tokio::time::Instant::now();
    let lost = Arc::clone(&client)
        .hold(held.lock_id, ttl(3000), held.valid_until, Hold::default())
        .await;
    let error = lost.expect("it was never extended");
    assert_eq!(error.code, ErrorCode::LockLost);
    assert_eq!(error.cause.as_deref(), Some("connection lost"));
    assert!(started.elapsed() <= Duration::from_millis(3100));

    client.release(held.lock_id, None).await.ok();
    let gone = Arc::clone(&client)
        .hold(
            LockId::generate(),
            ttl(3000),
            Instant::now() + Duration::from_secs(3),
            Hold::default(),
        )
        .await;
    assert_eq!(gone.expect("nothing to extend").code, ErrorCode::LockLost);
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_refuses_and_ends_waits() {
    let client = client(MemoryBackend::new());
    grant(&client, ttl(60_000)).await;
    let waiting = tokio::spawn(Arc::clone(&client).acquire_wait(
        key(),
        ttl(1000),
        patient(10_000.0, 60_000),
        CancellationToken::new(),
    ));
    sleep(Duration::from_millis(50)).await;
    let closed_at = tokio::time::Instant::now();
    client.close().await;
    client.close().await;
    let error = waiting.await.unwrap().result.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArgument);
    assert!(closed_at.elapsed() < Duration::from_secs(1));
    let error = client.is_locked(&key()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArgument);
}
