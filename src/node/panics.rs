//! Where Node.js, libuv or N-API calls us.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; nothing when it panics. Unwinding out of a function that C called would end the
/// process.
pub fn contain<T>(work: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // Its drop could panic in turn.
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
    fn nothing_gets_out() {
        assert_eq!(contain(|| 1), Some(1));
        assert_eq!(contain(|| panic!("on purpose")), None::<()>);
        let worst = || std::panic::panic_any(PanicsWhenDropped);
        assert_eq!(contain(worst), None::<()>);
    }
}
