//! JavaScript as the engine's host: its clocks and timers. If a test replaces them with fake ones, the fake
//! ones drive waits, heartbeats and expiry. All work is done on the JavaScript thread.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::outbox::Outbox;
use crate::client::host::{Host, Moment};
use crate::client::parked::{Outside, Parked};

pub(super) struct JavascriptHost {
    this: Weak<Self>,
    outbox: Arc<Outbox>,
    runtime: Handle,
    unix_ms: AtomicU64,
    time: Mutex<Time>,
    /// None if JavaScript has ended.
    timers: Mutex<Option<HashMap<u64, Timer>>>,
}

/// JavaScript's timers count whole milliseconds, so a timer may fire this much before its time.
const TIMER_ROUNDING: Duration = Duration::from_millis(2);

#[derive(Default)]
struct Time {
    now: Duration,
    /// The time of JavaScript's clock when it was last read. A test may replace the clock with one that
    /// starts anew.
    shown: Duration,
    /// How far timers have moved the time ahead of the clock by their rounding. The clock catches up
    /// first, so that this does not add up over many timers.
    ahead: Duration,
}

impl Time {
    /// Follows JavaScript's clock.
    fn show(&mut self, clock: Duration) {
        let elapsed = clock.saturating_sub(self.shown);
        let caught_up = elapsed.min(self.ahead);
        self.ahead -= caught_up;
        self.now += elapsed - caught_up;
        self.shown = clock;
    }

    /// Moves forward to the moment of a timer that has fired so much before its time.
    fn skip(&mut self, early: Duration) {
        self.now += early;
        // If a test replaces the timers but not the clock, time passes only with the timers.
        if early <= TIMER_ROUNDING {
            self.ahead += early;
        }
    }
}

struct Timer {
    due: Moment,
    fired: oneshot::Sender<()>,
}

impl JavascriptHost {
    pub fn new(outbox: Arc<Outbox>, runtime: Handle) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            outbox,
            runtime,
            unix_ms: AtomicU64::new(0),
            time: Mutex::default(),
            timers: Mutex::new(Some(HashMap::new())),
        })
    }

    pub fn set_time(&self, unix_ms: f64, steady_ms: f64) {
        self.unix_ms.store(unix_ms as u64, Ordering::Relaxed);
        let steady = Duration::try_from_secs_f64(steady_ms / 1000.0).unwrap_or(Duration::ZERO);
        self.time.lock().show(steady);
    }

    pub fn unix_ms(&self) -> u64 {
        self.unix_ms.load(Ordering::Relaxed)
    }

    pub fn fire(&self, timer: u64) {
        let Some(timer) = self.take(timer) else {
            return;
        };
        // The timer fires before its time because of its rounding, or if a test replaces the timers but
        // not the clock.
        let early = timer.due.since(self.now());
        self.time.lock().skip(early);
        let _ = timer.fired.send(());
    }

    fn take(&self, timer: u64) -> Option<Timer> {
        self.timers.lock().as_mut()?.remove(&timer)
    }

    /// Drops all timers, because none of them will fire. Everything that sleeps is woken.
    pub fn end(&self) {
        let timers = self.timers.lock().take();
        drop(timers);
    }

    fn has_ended(&self) -> bool {
        self.timers.lock().is_none()
    }
}

impl Host for JavascriptHost {
    fn now(&self) -> Moment {
        Moment::after_start(self.time.lock().now)
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        // A timer is set even if the moment has come, because JavaScript finishes its current work first.
        let left = moment.since(self.now());
        let id = self.outbox.next_id();
        let (fired, has_fired) = oneshot::channel();
        if let Some(timers) = self.timers.lock().as_mut() {
            // JavaScript's timers count whole milliseconds. The sleep ends after so many of them even if the
            // clock stands still.
            let ms = u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
            let due = self.now() + Duration::from_millis(ms);
            timers.insert(id, Timer { due, fired });
            self.outbox.message('T', &format!("{id},{ms}"));
        }
        let set = SetTimer {
            host: Weak::clone(&self.this),
            id,
        };
        Box::pin(async move {
            let _set = set;
            let _ = has_fired.await;
        })
    }

    fn may_oversleep(&self) -> bool {
        false
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        if self.has_ended() {
            // Time stands still and nobody answers questions, so the task would never end.
            return drop(task);
        }
        let elsewhere = match self.this.upgrade() {
            Some(host) => {
                Parked::new(host, self.runtime.clone(), Outside::Host).resume_in_turn(task)
            }
            None => Some(task),
        };
        if let Some(task) = elsewhere {
            self.runtime.spawn(task);
        }
    }
}

/// Clears the timer when it is dropped.
struct SetTimer {
    host: Weak<JavascriptHost>,
    id: u64,
}

impl Drop for SetTimer {
    fn drop(&mut self) {
        let Some(host) = self.host.upgrade() else {
            return;
        };
        if host.take(self.id).is_some() {
            host.outbox.message('C', &self.id.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rounding_of_timers_does_not_add_up() {
        let mut time = Time::default();
        for ms in 1..=1000 {
            // Each timer fires 0.9 ms before its time.
            time.show(Duration::from_millis(10 * ms));
            time.skip(Duration::from_micros(900));
        }
        assert_eq!(time.now, Duration::from_micros(10_000_900));
    }

    #[test]
    fn replaced_timers_move_time_without_the_clock() {
        let mut time = Time::default();
        time.show(Duration::from_millis(5));
        time.skip(Duration::from_secs(30));
        time.show(Duration::from_millis(7));
        assert_eq!(time.now, Duration::from_millis(30_007));
    }
}
