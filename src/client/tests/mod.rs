mod closing;
mod crowd;
mod first_heartbeat;
mod holding;
mod queueing;
mod sharing;
mod undoing;
mod waiting;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tokio::time::sleep;

use super::*;
use crate::backend::memory::MemoryBackend;
use crate::backend::{AcquireOutcome, AcquireRequest, ExtendOutcome, Holder, Miss, ReleaseRequest};
use crate::error::Cause;
use crate::lock::retry::{Backoff, Jitter, RetryPolicy};
use crate::lock::{Access, Ttl};

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
    acquires: AtomicU32,
    slow_acquires: AtomicU32,
    slow_releases: AtomicU32,
    slow_extends: AtomicU32,
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
        self.acquires.fetch_add(1, Ordering::SeqCst);
        let outcome = self.memory.acquire(request).await?;
        if take_one(&self.slow_acquires) {
            sleep(Duration::from_millis(self.delay_ms)).await;
        }
        self.answer(&self.acquires_lost, outcome).await
    }
    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseOutcome> {
        if self.releases_lost.load(Ordering::SeqCst) > 0 {
            return self
                .answer(&self.releases_lost, ReleaseOutcome::Released)
                .await;
        }
        let outcome = self.memory.release(request).await;
        if take_one(&self.slow_releases) {
            sleep(Duration::from_millis(self.delay_ms)).await;
        }
        outcome
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            keeps_order: self.keeps_order,
            supports_sharing: true,
            ..Capabilities::default()
        }
    }
    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        if self.extends_lost.load(Ordering::SeqCst) > 0 {
            let missed = ExtendOutcome::Missed(crate::backend::Miss::NotFound);
            return self.answer(&self.extends_lost, missed).await;
        }
        if take_one(&self.slow_extends) {
            sleep(Duration::from_millis(self.delay_ms)).await;
        }
        self.memory.extend(lock_id, ttl).await
    }
    async fn is_locked(&self, key: &Key) -> Result<bool> {
        self.memory.is_locked(key).await
    }
    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        self.memory.lookup(query).await
    }
    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        self.memory.list(after, limit).await
    }
    async fn force_release(&self, key: &Key) -> Result<bool> {
        self.memory.force_release(key).await
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
        access: Access::Exclusive,
        policy: policy.into(),
        wait,
        caller: 0,
    };
    Arc::clone(client).hold(request, None).await.result
}

async fn grant(client: &Arc<Client>, ttl: Ttl) -> Grant {
    let lock = LockRequest::exclusive(key(), ttl);
    let settled = Arc::clone(client).acquire(lock, None).await;
    settled.result.unwrap().expect("nobody else holds it")
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
