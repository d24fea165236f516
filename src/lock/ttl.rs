//! A lock's time to live, in whole milliseconds.

use std::time::Duration;

use crate::error::{Error, Result};

/// A hundred years. With this limit an expiry is an exact number in JavaScript and in every store.
pub const MAX_TTL_MS: u64 = 100 * 366 * 24 * 60 * 60 * 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ttl(u64);

impl Ttl {
    /// Converts a JavaScript number.
    pub fn from_number(ms: f64) -> Result<Self> {
        if ms.fract() == 0.0 && ms >= 1.0 && ms <= MAX_TTL_MS as f64 {
            Ok(Self(ms as u64))
        } else {
            Err(Error::invalid_argument(format!(
                "ttlMs must be a positive integer (milliseconds), at most {MAX_TTL_MS}"
            )))
        }
    }

    /// Rounds up to whole milliseconds. None for a duration of zero.
    pub fn rounded_up(duration: Duration) -> Option<Self> {
        let ms = duration.as_nanos().div_ceil(1_000_000);
        let ms = u64::try_from(ms).unwrap_or(MAX_TTL_MS).min(MAX_TTL_MS);
        (ms > 0).then_some(Self(ms))
    }

    pub fn ms(self) -> u64 {
        self.0
    }

    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_positive_integers() {
        for bad in [
            0.0,
            -1.0,
            0.5,
            1.5,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -0.0,
            9e15,
        ] {
            assert!(Ttl::from_number(bad).is_err(), "{bad}");
        }
        assert_eq!(Ttl::from_number(1.0).unwrap().ms(), 1);
        assert_eq!(
            Ttl::from_number(MAX_TTL_MS as f64).unwrap().ms(),
            MAX_TTL_MS
        );
    }
}
