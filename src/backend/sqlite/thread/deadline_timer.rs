//! Deadlines of operations that wait for the thread. They share one timer, because a timer for each
//! would cost more than the operation that it guards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

pub(super) struct DeadlineTimer {
    state: Arc<State>,
    interval: Duration,
}

#[derive(Default)]
struct State {
    waiting: AtomicUsize,
    is_ticking: AtomicBool,
    tick: Notify,
}

impl DeadlineTimer {
    /// Deadlines are noticed up to `interval` late.
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            state: Arc::default(),
            interval,
        }
    }

    /// Waits for `answer`. None if it does not come before `deadline`.
    pub(super) async fn within<T>(
        &self,
        deadline: Instant,
        answer: impl Future<Output = T>,
    ) -> Option<T> {
        let _waiting = Waiting::enter(&self.state);
        self.start();
        let mut answer = std::pin::pin!(answer);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return Some(answer),
                () = self.state.tick.notified() => {}
            }
            if Instant::now() >= deadline {
                return None;
            }
        }
    }

    /// Starts the timer, which ticks as long as somebody waits.
    fn start(&self) {
        if self.state.is_ticking.swap(true, Ordering::SeqCst) {
            return;
        }
        let (state, interval) = (Arc::clone(&self.state), self.interval);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                state.tick.notify_waiters();
                if state.waiting.load(Ordering::SeqCst) == 0 {
                    state.is_ticking.store(false, Ordering::SeqCst);
                    // A caller that came in between has either started the next timer or keeps this one.
                    if state.waiting.load(Ordering::SeqCst) == 0
                        || state.is_ticking.swap(true, Ordering::SeqCst)
                    {
                        return;
                    }
                }
            }
        });
    }
}

struct Waiting<'a>(&'a State);

impl<'a> Waiting<'a> {
    fn enter(state: &'a State) -> Self {
        state.waiting.fetch_add(1, Ordering::SeqCst);
        Self(state)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rings_for_all_and_again_after_a_pause() {
        let timer = DeadlineTimer::new(Duration::from_millis(1));
        let soon = || Instant::now() + Duration::from_millis(5);
        for _ in 0..3 {
            let (one, two) = tokio::join!(
                timer.within(soon(), std::future::pending::<()>()),
                timer.within(soon(), std::future::pending::<()>()),
            );
            assert!(one.is_none() && two.is_none());
            while timer.state.is_ticking.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    #[tokio::test]
    async fn an_answer_wins_over_the_deadline() {
        let timer = DeadlineTimer::new(Duration::from_millis(1));
        let past = Instant::now();
        assert_eq!(timer.within(past, async { 7 }).await, Some(7));
        assert_eq!(timer.state.waiting.load(Ordering::SeqCst), 0);
    }
}
