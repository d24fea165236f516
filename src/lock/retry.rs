//! The delay between two attempts of `lock()`, as a pure function.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backoff {
    Exponential,
    Fixed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    None,
    /// Half of the delay is fixed, and half is random.
    Equal,
    /// The whole delay is random.
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    pub retry_delay_ms: f64,
    /// The longest delay. Infinite for no limit.
    pub max_delay_ms: f64,
    pub backoff: Backoff,
    pub jitter: Jitter,
}

impl RetryPolicy {
    /// Returns the delay after the `attempt`-th failed attempt, which is 1 for the first. `random` is in
    /// `0.0..1.0`. The delay never exceeds `remaining_ms`.
    pub fn delay_ms(&self, attempt: u32, remaining_ms: f64, random: f64) -> f64 {
        let base = match self.backoff {
            Backoff::Fixed => self.retry_delay_ms,
            Backoff::Exponential => {
                let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
                // Without this check 0 * 2^1024 would be NaN.
                if self.retry_delay_ms > 0.0 {
                    self.retry_delay_ms * 2f64.powi(exponent)
                } else {
                    0.0
                }
            }
        };
        let base = base.min(self.max_delay_ms).min(f64::MAX);
        let delay = match self.jitter {
            Jitter::None => base,
            Jitter::Equal => base / 2.0 + random * (base / 2.0),
            Jitter::Full => random * base,
        };
        delay.min(remaining_ms).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn doubles_until_the_time_is_up() {
        let policy = RetryPolicy {
            retry_delay_ms: 100.0,
            max_delay_ms: f64::INFINITY,
            backoff: Backoff::Exponential,
            jitter: Jitter::None,
        };
        assert_eq!(policy.delay_ms(1, 5000.0, 0.9), 100.0);
        assert_eq!(policy.delay_ms(3, 5000.0, 0.9), 400.0);
        assert_eq!(policy.delay_ms(3, 50.0, 0.9), 50.0);
        assert_eq!(policy.delay_ms(u32::MAX, 50.0, 0.9), 50.0);
        assert_eq!(policy.delay_ms(3, 0.0, 0.9), 0.0);
        let capped = RetryPolicy {
            max_delay_ms: 250.0,
            ..policy
        };
        assert_eq!(capped.delay_ms(2, 5000.0, 0.9), 200.0);
        assert_eq!(capped.delay_ms(3, 5000.0, 0.9), 250.0);
    }

    fn policies() -> impl Strategy<Value = RetryPolicy> {
        (
            0.0..1e9,
            prop_oneof![Just(f64::INFINITY), 0.0..1e6],
            prop_oneof![Just(Backoff::Exponential), Just(Backoff::Fixed)],
            prop_oneof![Just(Jitter::None), Just(Jitter::Equal), Just(Jitter::Full)],
        )
            .prop_map(
                |(retry_delay_ms, max_delay_ms, backoff, jitter)| RetryPolicy {
                    retry_delay_ms,
                    max_delay_ms,
                    backoff,
                    jitter,
                },
            )
    }

    proptest! {
        #[test]
        fn stays_within_its_bounds(
            policy in policies(), attempt in any::<u32>(), remaining in 0.0..1e9, random in 0.0..1.0
        ) {
            let delay = policy.delay_ms(attempt, remaining, random);
            let full = RetryPolicy { jitter: Jitter::None, ..policy }.delay_ms(attempt, f64::MAX, random);
            let least = match policy.jitter {
                Jitter::None => full,
                Jitter::Equal => full / 2.0,
                Jitter::Full => 0.0,
            };
            prop_assert!(delay >= least.min(remaining) && delay <= full.min(remaining));
        }
    }
}
