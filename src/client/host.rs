//! What the engine needs of the program around it: time, chance, and somebody who runs what goes on
//! in the background. The engine has no other clock, so that a simulated one can take its place.

use std::ops::Add;
use std::time::Duration;

use futures_util::future::BoxFuture;

/// A point in time, counted from any start.
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
    /// Never goes back, and counts the time that the machine was suspended.
    fn now(&self) -> Moment;

    /// Returns at `moment`, or soon after.
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()>;

    /// Runs the task to its end.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// At least 0, and less than 1. The engine leaves nothing else to chance.
    fn random(&self) -> f64 {
        rand::random()
    }
}
