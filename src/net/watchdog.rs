//! Time limits for requests without a timer for each of them: setting a timer would wake an I/O thread.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::sync::{AtomicBool, AtomicUsize, Notify, sleep};

/// A limit is noticed late by at most this part of it.
const PARTS: u32 = 16;
const SHORTEST: Duration = Duration::from_millis(5);

#[derive(Default)]
pub(crate) struct Watchdog {
    waiting: AtomicUsize,
    asleep: AtomicBool,
    wake: Notify,
}

/// The time between two looks whether a limit has passed.
pub(crate) fn pause_of(limit: Duration) -> Duration {
    (limit / PARTS).max(SHORTEST)
}

impl Watchdog {
    /// Ticks while any request is in flight. To be run once.
    pub(crate) async fn run(&self, pause: Duration, tick: impl Fn()) {
        loop {
            sleep(pause).await;
            if self.waiting.load(Ordering::SeqCst) > 0 {
                tick();
                continue;
            }
            self.asleep.store(true, Ordering::SeqCst);
            // A request may have started just before: it would not wake us.
            if self.waiting.load(Ordering::SeqCst) == 0 {
                self.wake.notified().await;
            }
            self.asleep.store(false, Ordering::SeqCst);
        }
    }

    /// A request has started.
    pub(crate) fn started(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            self.wake.notify_one();
        }
    }

    /// One of the requests that started has ended.
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
            watchdog.started();
            watchdog.started();
            while ticks.load(Ordering::SeqCst) < before + 2 {
                tokio::task::yield_now().await;
            }
            watchdog.ended();
            watchdog.ended();
        }
    }
}
