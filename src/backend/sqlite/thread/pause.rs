//! How the thread waits for another process.

use std::thread;
use std::time::Duration;

/// The wait for another process to finish its write, which mostly takes microseconds and sometimes an
/// fsync. Each pause is longer than the one before.
#[derive(Default)]
pub(super) struct Pause {
    times: u32,
}

impl Pause {
    const YIELDS: u32 = 3;
    const SHORTEST: Duration = Duration::from_micros(50);
    const LONGEST: Duration = Duration::from_millis(2);

    pub(super) fn wait(&mut self) {
        self.times = self.times.saturating_add(1);
        if self.times <= Self::YIELDS {
            thread::yield_now();
            return;
        }
        let doubled = Self::SHORTEST.saturating_mul(1 << (self.times - Self::YIELDS).min(8));
        // Random, so that waiting processes do not all try again at once.
        thread::sleep(
            doubled
                .min(Self::LONGEST)
                .mul_f64(rand::random_range(0.5..1.0)),
        );
    }
}
