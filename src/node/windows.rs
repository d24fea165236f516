//! What only Windows has.

use std::time::Duration;

use crate::lock::time::COARSE_CLOCK;

#[link(name = "kernel32")]
// SAFETY: its signature as Windows documents it. It takes nothing, cannot fail, and may be called
// from any thread.
unsafe extern "system" {
    safe fn GetTickCount64() -> u64;
}

/// From now on deadlines count the time that the machine was suspended.
pub(super) fn count_suspend() {
    let _ = COARSE_CLOCK.set(|| Duration::from_millis(GetTickCount64()));
}
