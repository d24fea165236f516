//! Tells those who wait for a thread that time has passed: one timer for all of them, because one
//! for each costs more than the operation it guards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

pub(super) struct Alarm {
    state: Arc<State>,
    interval: Duration,
}

#[derive(Default)]
struct State {
    waiting: AtomicUsize,
    ringing: AtomicBool,
    bell: Notify,
}

impl Alarm {
    /// Deadlines are noticed up to `interval` late.
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            state: Arc::default(),
            interval,
        }
    }

    /// What `answer` gives, or `None` when that takes until after `deadline`.
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
                () = self.state.bell.notified() => {}
            }
            if Instant::now() >= deadline {
                return None;
            }
        }
    }

    /// Rings as long as somebody waits.
    fn start(&self) {
        if self.state.ringing.swap(true, Ordering::SeqCst) {
            return;
        }
        let (state, interval) = (Arc::clone(&self.state), self.interval);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                state.bell.notify_waiters();
                if state.waiting.load(Ordering::SeqCst) == 0 {
                    state.ringing.store(false, Ordering::SeqCst);
                    // Who came in between has either started the next one or sees it here.
                    if state.waiting.load(Ordering::SeqCst) == 0
                        || state.ringing.swap(true, Ordering::SeqCst)
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
        let alarm = Alarm::new(Duration::from_millis(1));
        let soon = || Instant::now() + Duration::from_millis(5);
        for _ in 0..3 {
            let (one, two) = tokio::join!(
                alarm.within(soon(), std::future::pending::<()>()),
                alarm.within(soon(), std::future::pending::<()>()),
            );
            assert!(one.is_none() && two.is_none());
            while alarm.state.ringing.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    #[tokio::test]
    async fn an_answer_wins_over_the_deadline() {
        let alarm = Alarm::new(Duration::from_millis(1));
        let past = Instant::now();
        assert_eq!(alarm.within(past, async { 7 }).await, Some(7));
        assert_eq!(alarm.state.waiting.load(Ordering::SeqCst), 0);
    }
}
