//! Time limits for requests without a timer for each: setting one would wake the I/O thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::sleep;

/// A limit is noticed at most this part of it too late.
const PARTS: u32 = 16;
const SHORTEST: Duration = Duration::from_millis(5);

#[derive(Default)]
pub struct Watchdog {
    waiting: AtomicUsize,
    asleep: AtomicBool,
    wake: Notify,
    tick: Notify,
}

impl Watchdog {
    /// To be spawned, once. Ticks while anybody waits.
    pub async fn run(&self, limit: Duration) {
        let pause = (limit / PARTS).max(SHORTEST);
        loop {
            sleep(pause).await;
            if self.waiting.load(Ordering::SeqCst) > 0 {
                self.tick.notify_waiters();
                continue;
            }
            self.asleep.store(true, Ordering::SeqCst);
            // Somebody may have come just before: then nobody would wake us.
            if self.waiting.load(Ordering::SeqCst) == 0 {
                self.wake.notified().await;
            }
            self.asleep.store(false, Ordering::SeqCst);
        }
    }

    /// Counts as waiting until it is dropped.
    pub fn enter(&self) -> Waiting<'_> {
        let before = self.waiting.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            self.wake.notify_one();
        }
        Waiting {
            watchdog: self,
            alone: before == 0,
        }
    }
}

pub struct Waiting<'a> {
    watchdog: &'a Watchdog,
    /// Nobody else was waiting.
    pub alone: bool,
}

impl Waiting<'_> {
    /// Returns some time after `limit` has passed since `since`.
    pub async fn until_over(&self, since: Instant, limit: Duration) {
        loop {
            self.watchdog.tick.notified().await;
            if since.elapsed() >= limit {
                return;
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.watchdog.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const LIMIT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_limit_is_noticed_also_after_a_rest() {
        let watchdog = Arc::new(Watchdog::default());
        tokio::spawn({
            let watchdog = Arc::clone(&watchdog);
            async move { watchdog.run(LIMIT).await }
        });
        for _ in 0..3 {
            while !watchdog.asleep.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
            let started = Instant::now();
            let first = watchdog.enter();
            let second = watchdog.enter();
            assert!(first.alone && !second.alone);
            tokio::join!(
                first.until_over(started, LIMIT),
                second.until_over(started, LIMIT)
            );
            assert!(started.elapsed() >= LIMIT);
        }
    }
}
