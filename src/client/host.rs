//! The interface to the engine's environment: time, randomness, and background tasks. The engine uses no
//! other clock, so that tests can simulate it.

use std::ops::Add;
use std::time::Duration;

use futures_util::future::BoxFuture;

/// A point in time, as the duration since an arbitrary start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    pub const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    pub fn since_start(self) -> Duration {
        self.0
    }

    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

pub trait Host: Send + Sync + 'static {
    /// Returns the current time. It never goes back, and includes the time that the machine was suspended.
    fn now(&self) -> Moment;

    /// Returns at `moment`, or soon after.
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()>;

    /// Runs the task to its end.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Returns whether a timer may be left running when it is no longer needed. False for a host whose
    /// timers the program can see and count, such as fake timers in tests.
    fn may_oversleep(&self) -> bool {
        true
    }

    /// Returns a random number from 0 to less than 1.
    fn random(&self) -> f64 {
        rand::random()
    }

    /// Returns unpredictable bytes for a lockId.
    fn random_bytes(&self) -> [u8; 16] {
        rand::random()
    }
}
