//! Rivals elsewhere.

use super::*;

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
            is_shared: false,
            label: None,
        })))
    }
    async fn release(&self, _: ReleaseRequest) -> Result<ReleaseOutcome> {
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
    async fn list(&self, _: Option<&str>, _: usize) -> Result<Page> {
        Ok(Page::default())
    }
    async fn force_release(&self, _: &Key) -> Result<bool> {
        Ok(false)
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
