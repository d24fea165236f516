//! Catches panics, because functions that Node.js, libuv or N-API call must not unwind.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work` and returns its result. None if it panics. Unwinding out of a function that C called would
/// end the process.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // Dropping the payload could panic again.
            std::mem::forget(payload);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct PanicsWhenDropped;

    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }

    #[test]
    fn no_panic_unwinds() {
        assert_eq!(catch_panic(|| 1), Some(1));
        assert_eq!(catch_panic(|| panic!("on purpose")), None::<()>);
        let worst = || std::panic::panic_any(PanicsWhenDropped);
        assert_eq!(catch_panic(worst), None::<()>);
    }
}
