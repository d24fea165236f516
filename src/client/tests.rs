use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use std::time::Duration;
use tokio::time::sleep;

use super::*;
use crate::backend::memory::MemoryBackend;
use crate::error::Cause;
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
            max_delay_ms: f64::INFINITY,
            backoff: Backoff::Fixed,
            jitter: Jitter::None,
        },
        max_retries: 1000,
        timeout: Some(Duration::from_millis(timeout_ms)),
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
    slow_acquires: AtomicU32,
    slow_releases: AtomicU32,
    keeps_order: bool,
}

fn take_one(counter: &AtomicU32) -> bool {
    let less = |n: u32| n.checked_sub(1);
    counter
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
        .is_ok()
}

impl BadLine {
    async fn answer<T>(&self, lost: &AtomicU32, answer: T) -> Result<T> {
        if take_one(lost) {
            return Err(Error::unavailable("connection lost").outcome_unknown());
        }
        Ok(answer)
    }
}

#[async_trait]
impl Backend for BadLine {
    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let outcome = self.memory.acquire(request).await?;
        if take_one(&self.slow_acquires) {
            sleep(Duration::from_millis(self.delay_ms)).await;
        }
        self.answer(&self.acquires_lost, outcome).await
    }
    async fn release(&self, lock_id: LockId) -> Result<ReleaseOutcome> {
        if self.releases_lost.load(Ordering::SeqCst) > 0 {
            return self
                .answer(&self.releases_lost, ReleaseOutcome::Released)
                .await;
        }
        let outcome = self.memory.release(lock_id).await;
        if take_one(&self.slow_releases) {
            sleep(Duration::from_millis(self.delay_ms)).await;
        }
        outcome
    }
    fn keeps_order(&self) -> bool {
        self.keeps_order
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
    fn obstacle(&self) -> Option<Error> {
        Some(Error::unavailable("refused there"))
    }
    async fn close(&self) {}
}

/// The runtime's own time, which a test may pause.
struct PausedHost(tokio::time::Instant);

impl Host for PausedHost {
    fn now(&self) -> Moment {
        Moment::after_start(self.0.elapsed())
    }
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(self.0 + moment.since_start()))
    }
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }
}

fn client(backend: impl Backend) -> Arc<Client> {
    client_of(Arc::new(backend))
}

fn client_of(backend: Arc<dyn Backend>) -> Arc<Client> {
    let host = PausedHost(tokio::time::Instant::now());
    Client::new(backend, Arc::new(host))
}

async fn hold(
    client: &Arc<Client>,
    policy: impl Into<HoldPolicy>,
    wait: Option<WaitPolicy>,
) -> Result<Option<Arc<Hold>>> {
    let request = HoldRequest {
        key: key(),
        policy: policy.into(),
        wait,
        caller: 0,
    };
    Arc::clone(client).hold(request, None).await.result
}

async fn grant(client: &Arc<Client>, ttl: Ttl) -> Grant {
    let settled = Arc::clone(client).acquire(key(), ttl, None).await;
    settled.result.unwrap().expect("nobody else holds it")
}

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
        slow_acquires: 1.into(),
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

fn code<T>(result: Result<T>) -> ErrorCode {
    match result {
        Ok(_) => panic!("it succeeded"),
        Err(error) => error.code,
    }
}

/// A caller that waits, in a task of its own.
fn waiting(
    client: &Arc<Client>,
    policy: WaitPolicy,
) -> tokio::task::JoinHandle<Result<Option<Arc<Hold>>>> {
    let client = Arc::clone(client);
    tokio::spawn(async move { hold(&client, ttl(60_000), Some(policy)).await })
}

async fn a_moment() {
    sleep(Duration::from_millis(50)).await;
}

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
    backend.release(held.lock_id).await.unwrap();
    let started = tokio::time::Instant::now();
    next.await.unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(1));
}

/// A store in which others hold the key, each for so long.
struct Crowded {
    started: tokio::time::Instant,
    each_ms: AtomicU32,
    attempts: AtomicU32,
    watched: Arc<AtomicU32>,
}

struct CountedWatch(Arc<AtomicU32>);

#[async_trait]
impl crate::backend::Watch for CountedWatch {
    async fn changed(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }
}

#[async_trait]
impl Backend for Crowded {
    async fn acquire(&self, _: &AcquireRequest) -> Result<AcquireOutcome> {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        let now_ms = self.started.elapsed().as_millis() as u64;
        let each_ms = u64::from(self.each_ms.load(Ordering::SeqCst));
        Ok(AcquireOutcome::Locked(Some(Holder {
            free_in: Duration::from_secs(30),
            expires_at_ms: now_ms / each_ms * each_ms,
        })))
    }
    async fn release(&self, _: LockId) -> Result<ReleaseOutcome> {
        Ok(ReleaseOutcome::Missed(Miss::NotFound))
    }
    async fn extend(&self, _: LockId, _: Ttl) -> Result<ExtendOutcome> {
        Ok(ExtendOutcome::Missed(Miss::NotFound))
    }
    async fn is_locked(&self, _: &Key) -> Result<bool> {
        Ok(true)
    }
    async fn lookup(&self, _: &LookupQuery) -> Result<Option<LockRecord>> {
        Ok(None)
    }
    fn watch(&self, _: &Key) -> Option<Box<dyn crate::backend::Watch>> {
        Some(Box::new(CountedWatch(Arc::clone(&self.watched))))
    }
    async fn close(&self) {}
}

#[tokio::test(start_paused = true)]
async fn a_key_that_changes_hands_quickly_is_tried_at_random_and_one_that_stays_is_watched() {
    let backend = Arc::new(Crowded {
        started: tokio::time::Instant::now(),
        each_ms: AtomicU32::new(5),
        attempts: AtomicU32::new(0),
        watched: Arc::default(),
    });
    let client = client_of(Arc::clone(&backend) as Arc<dyn Backend>);
    let waiter = waiting(&client, patient(60_000.0, 120_000));
    sleep(Duration::from_millis(500)).await;
    // Every 10 to 30 ms.
    let attempts = backend.attempts.load(Ordering::SeqCst);
    assert!((15..=55).contains(&attempts), "{attempts}");
    assert_eq!(backend.watched.load(Ordering::SeqCst), 0);

    backend.each_ms.store(10_000_000, Ordering::SeqCst);
    sleep(Duration::from_millis(200)).await;
    let attempts = backend.attempts.swap(0, Ordering::SeqCst) - attempts;
    assert!(attempts <= 10, "{attempts}");
    assert!(backend.watched.load(Ordering::SeqCst) > 0);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(backend.attempts.load(Ordering::SeqCst), 0);
    waiter.abort();
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
    assert!(message.contains("it waits for itself"), "{message}");
    assert!(!client.holds_since(&key(), before));

    // The lock of a single acquire is no hold.
    Arc::clone(&client).end(outer).await.unwrap();
    grant(&client, ttl(60_000)).await;
    let message = timed_out().await;
    assert!(message.contains("another holds it"), "{message}");
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
    assert!(
        error
            .message
            .contains("Failed to acquire lock after 4 attempts"),
        "{error}"
    );

    let cancel = CancellationToken::new();
    let request = HoldRequest {
        key: key(),
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

fn kept(ms: u32) -> HoldPolicy {
    HoldPolicy {
        auto_extend: true,
        ..ttl(ms).into()
    }
}

/// What a hold's listener was told.
fn listen(client: &Arc<Client>, held: &Arc<Hold>) -> tokio::sync::mpsc::UnboundedReceiver<Error> {
    let (told, lost) = tokio::sync::mpsc::unbounded_channel();
    let listener = move |event: HoldEvent<'_>| {
        if let HoldEvent::Lost(error) = event {
            told.send(error.clone()).unwrap();
        }
    };
    client.listen(held, Box::new(listener));
    lost
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
async fn what_was_extended_is_undone_for_as_long_as_it_lasts() {
    let client = client(BadLine {
        releases_lost: 8.into(),
        ..Default::default()
    });
    let policy = HoldPolicy {
        longest: Some(Duration::from_secs(1)),
        ..ttl(300).into()
    };
    let held = hold(&client, policy, None).await.unwrap().unwrap();
    let extended = client.extend(held.lock_id, ttl(60_000)).await;
    extended.unwrap().unwrap();
    sleep(Duration::from_secs(20)).await;
    assert!(!client.is_locked(&key()).await.unwrap());
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
