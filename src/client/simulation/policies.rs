//! Random policies for waiting and holding.

use std::time::Duration;

use super::random::Random;
use crate::client::{HoldPolicy, WaitPolicy};
use crate::lock::retry::{Backoff, Jitter, RetryPolicy};
use crate::lock::share::UNLIMITED;
use crate::lock::{Access, Ttl};

/// How the callers of one run use their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    /// Nobody shares.
    Exclusive,
    /// At most so many holders at a time.
    Semaphore(u32),
    ReadersAndWriters,
    /// Limits that change, readers and exclusive holders.
    Mixed,
}

impl Usage {
    pub(super) fn draw(random: &mut Random) -> Self {
        let limit = random.pick(&[2, 3]);
        random.pick(&[
            Self::Exclusive,
            Self::Exclusive,
            Self::Semaphore(limit),
            Self::ReadersAndWriters,
            Self::Mixed,
        ])
    }

    /// Draws the access for one call.
    pub(super) fn access(self, random: &mut Random) -> Access {
        let limit = match self {
            Self::Exclusive => return Access::Exclusive,
            Self::Semaphore(limit) => limit,
            Self::ReadersAndWriters if random.chance(30) => return Access::Exclusive,
            Self::ReadersAndWriters => UNLIMITED,
            Self::Mixed if random.chance(25) => return Access::Exclusive,
            Self::Mixed => random.pick(&[1, 2, 3, 5, UNLIMITED]),
        };
        Access::Shared { limit }
    }
}

pub(super) fn ttl(random: &mut Random) -> Ttl {
    let ms = random.pick(&[300.0, 1000.0, 3000.0, 20_000.0, 60_000.0]);
    Ttl::from_number(ms).unwrap()
}

pub(super) fn to_wait(random: &mut Random) -> WaitPolicy {
    let timeout = random.pick(&[None, Some(200), Some(3000), Some(15_000), Some(15_000)]);
    // A caller may never release the lock.
    let retries: &[u32] = if timeout.is_none() {
        &[10]
    } else {
        &[2, 10, 1000]
    };
    WaitPolicy {
        retry: RetryPolicy {
            retry_delay_ms: random.pick(&[20.0, 100.0, 1000.0, 5000.0]),
            max_delay_ms: random.pick(&[1000.0, 10_000.0]),
            backoff: random.pick(&[Backoff::Fixed, Backoff::Exponential]),
            jitter: random.pick(&[Jitter::None, Jitter::Equal, Jitter::Full]),
        },
        max_retries: random.pick(retries),
        timeout: timeout.map(Duration::from_millis),
    }
}

pub(super) fn to_hold(random: &mut Random) -> HoldPolicy {
    HoldPolicy {
        ttl: ttl(random),
        auto_extend: random.chance(50),
        max_hold: random.chance(10).then(|| random.ms(200..4000)),
        // Sometimes longer than a short TTL lasts in the store.
        min_hold: random.chance(20).then(|| {
            let ms = random.pick(&[1500, 8000]);
            random.ms(10..ms)
        }),
    }
}

/// The longest time between two attempts if nothing causes an earlier one.
pub(super) fn longest_delay(wait: &WaitPolicy) -> Duration {
    let ms = match wait.retry.backoff {
        Backoff::Fixed => wait.retry.retry_delay_ms.min(wait.retry.max_delay_ms),
        Backoff::Exponential => wait.retry.max_delay_ms,
    };
    Duration::from_secs_f64(ms / 1000.0)
}
