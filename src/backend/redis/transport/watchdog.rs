//! Time limits for requests without a timer for each: setting one would wake the I/O thread.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::sync::{AtomicBool, AtomicUsize, Notify, sleep};

/// A limit is noticed at most this part of it too late.
const PARTS: u32 = 16;
const SHORTEST: Duration = Duration::from_millis(5);

#[derive(Default)]
pub(crate) struct Watchdog {
    waiting: AtomicUsize,
    asleep: AtomicBool,
    wake: Notify,
}

/// Between two looks whether a limit is over.
pub(crate) fn pause_of(limit: Duration) -> Duration {
    (limit / PARTS).max(SHORTEST)
}

impl Watchdog {
    /// To be run once. Ticks while anybody waits.
    pub(crate) async fn run(&self, pause: Duration, tick: impl Fn()) {
        loop {
            sleep(pause).await;
            if self.waiting.load(Ordering::SeqCst) > 0 {
                tick();
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

    /// Somebody waits from now on. Whether nobody else did.
    pub(crate) fn started(&self) -> bool {
        let before = self.waiting.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            self.wake.notify_one();
        }
        before == 0
    }

    /// Of those who started, one waits no more.
    pub(crate) fn ended(&self) {
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const PAUSE: Duration = Duration::from_millis(5);

    #[tokio::test]
    async fn ticks_while_anybody_waits_also_after_a_rest() {
        let watchdog = Arc::new(Watchdog::default());
        let ticks = Arc::new(AtomicUsize::new(0));
        tokio::spawn({
            let (watchdog, ticks) = (Arc::clone(&watchdog), Arc::clone(&ticks));
            let tick = move || {
                ticks.fetch_add(1, Ordering::SeqCst);
            };
            async move { watchdog.run(PAUSE, tick).await }
        });
        for _ in 0..3 {
            while !watchdog.asleep.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
            let before = ticks.load(Ordering::SeqCst);
            assert!(watchdog.started());
            assert!(!watchdog.started());
            while ticks.load(Ordering::SeqCst) < before + 2 {
                tokio::task::yield_now().await;
            }
            watchdog.ended();
            watchdog.ended();
        }
    }
}
