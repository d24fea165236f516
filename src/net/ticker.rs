//! A timer that many operations share. A timer for each of them would cost more than the operation,
//! because setting a timer wakes an I/O thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::sync::{AtomicBool, AtomicUsize, sleep, spawn};

/// How often a time limit is checked before it is over. It is noticed late by at most one such interval.
const CHECKS_PER_LIMIT: u32 = 16;
const MIN_INTERVAL: Duration = Duration::from_millis(5);

/// Calls a function at an interval while it has users: see [`start`](Self::start).
pub(crate) struct Ticker(Arc<State>);

struct State {
    interval: Duration,
    on_tick: Box<dyn Fn() + Send + Sync>,
    users: AtomicUsize,
    is_ticking: AtomicBool,
}

/// Keeps a [`Ticker`] ticking until it is dropped.
pub(crate) struct Ticking(Arc<State>);

/// Returns the interval at which to check whether `limit` has passed.
pub(crate) fn interval_for(limit: Duration) -> Duration {
    (limit / CHECKS_PER_LIMIT).max(MIN_INTERVAL)
}

impl Ticker {
    pub(crate) fn new(interval: Duration, on_tick: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(State {
            interval,
            on_tick: Box::new(on_tick),
            users: AtomicUsize::new(0),
            is_ticking: AtomicBool::new(false),
        }))
    }

    /// Ticks until the returned value is dropped. Must be called in a tokio runtime.
    pub(crate) fn start(&self) -> Ticking {
        let state = &self.0;
        state.users.fetch_add(1, Ordering::SeqCst);
        // Usually the ticker is ticking already, and a load is cheaper than a swap.
        if !state.is_ticking.load(Ordering::SeqCst)
            && !state.is_ticking.swap(true, Ordering::SeqCst)
        {
            spawn(tick_while_needed(Arc::clone(state)));
        }
        Ticking(Arc::clone(state))
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn tick_while_needed(state: Arc<State>) {
    loop {
        sleep(state.interval).await;
        (state.on_tick)();
        if state.users.load(Ordering::SeqCst) > 0 {
            continue;
        }
        state.is_ticking.store(false, Ordering::SeqCst);
        // A user may have started it just before, and relied on this task.
        let is_needed = state.users.load(Ordering::SeqCst) > 0;
        if !is_needed || state.is_ticking.swap(true, Ordering::SeqCst) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ticks_while_it_has_users_and_again_after_a_pause() {
        let ticks = Arc::new(AtomicUsize::new(0));
        let ticker = Ticker::new(Duration::from_millis(1), {
            let ticks = Arc::clone(&ticks);
            move || {
                ticks.fetch_add(1, Ordering::SeqCst);
            }
        });
        for _ in 0..3 {
            let before = ticks.load(Ordering::SeqCst);
            let (first, second) = (ticker.start(), ticker.start());
            drop(first);
            while ticks.load(Ordering::SeqCst) < before + 3 {
                tokio::task::yield_now().await;
            }
            drop(second);
            while ticker.0.is_ticking.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
        }
    }
}
