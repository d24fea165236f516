//! Fencing tokens: 15 decimal digits that grow with every acquisition of a key.

use std::fmt;

use crate::error::{Error, Result};

/// The largest fence that is issued.
pub const FENCE_MAX: u64 = 900_000_000_000_000;
/// Acquiring a lock with a larger fence warns.
pub const FENCE_WARN: u64 = 90_000_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// Checks a fence that was read from a store. Fails if this library cannot have written it.
    pub fn from_stored(value: u64) -> Result<Self> {
        if value > FENCE_MAX {
            Err(overflow())
        } else {
            Ok(Self(value))
        }
    }

    pub fn parse(text: &str) -> Result<Self> {
        let valid = text.len() == 15 && text.bytes().all(|b| b.is_ascii_digit());
        match text.parse() {
            Ok(value) if valid => Self::from_stored(value),
            _ => Err(Error::internal(
                "The stored fence is not a 15-digit number: the lock's data was changed by something else",
            )),
        }
    }

    /// Returns the fence after `counter`, which is the last one that was issued, or 0.
    pub fn after(counter: u64) -> Result<Self> {
        Self::from_stored(counter.saturating_add(1))
    }

    pub fn value(self) -> u64 {
        self.0
    }
}

/// Returns the error of a counter that has reached the end of its range.
pub fn overflow() -> Error {
    Error::internal(format!(
        "Fence counter overflow: the limit of {FENCE_MAX} is reached. Use a new key, or a new key prefix, for this resource"
    ))
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:015}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_and_the_last() {
        assert_eq!(Fence::after(0).unwrap().to_string(), "000000000000001");
        assert_eq!(
            Fence::after(FENCE_MAX - 1).unwrap().to_string(),
            "900000000000000"
        );
        assert!(Fence::after(FENCE_MAX).is_err());
        assert!(Fence::after(u64::MAX).is_err());
    }

    proptest! {
        #[test]
        fn text_order_is_numeric_order(a in 0..=FENCE_MAX, b in 0..=FENCE_MAX) {
            let (x, y) = (Fence::from_stored(a).unwrap(), Fence::from_stored(b).unwrap());
            prop_assert_eq!(a.cmp(&b), x.to_string().cmp(&y.to_string()));
            prop_assert_eq!(Fence::parse(&x.to_string()).unwrap(), x);
        }

        #[test]
        fn garbage_is_refused(text in "[0-9a+ -]{0,17}") {
            let valid = text.len() == 15 && text.bytes().all(|b| b.is_ascii_digit()) && *text <= *"900000000000000";
            prop_assert_eq!(Fence::parse(&text).is_ok(), valid);
        }
    }
}
