//! Time: the rule that says whether a lock is live, and the clocks to use with it.

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a lock counts as held after its expiry, to allow for clocks that differ.
pub const TIME_TOLERANCE_MS: u64 = 1000;

/// Returns whether a lock is live. Every backend uses this rule, here or as the same expression in its
/// store.
pub fn is_live(expires_at_ms: u64, now_ms: u64, tolerance_ms: u64) -> bool {
    expires_at_ms.saturating_add(tolerance_ms) > now_ms
}

/// Returns the Unix time of the host's clock.
pub fn system_now_ms() -> u64 {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time since an arbitrary start. It never goes back and, if the system has such a clock,
/// includes the time that the machine was suspended.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub fn boot_time() -> Duration {
    #[cfg(not(target_vendor = "apple"))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    // On macOS the monotonic clock continues during sleep, unlike the one that `Instant` uses.
    #[cfg(target_vendor = "apple")]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the time of `Instant` or of [`COARSE_CLOCK`], whichever is later.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub fn boot_time() -> Duration {
    static START: LazyLock<(Instant, Duration)> = LazyLock::new(|| (Instant::now(), coarse()));
    fn coarse() -> Duration {
        COARSE_CLOCK.get().map_or(Duration::ZERO, |clock| clock())
    }
    let (instant, start) = *START;
    let coarse = coarse().saturating_sub(start).saturating_sub(COARSE_TICK);
    instant.elapsed().max(coarse)
}

/// A clock that includes suspends but is coarse, for systems where the standard library has none. It
/// corrects `Instant`, which is finer.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub static COARSE_CLOCK: std::sync::OnceLock<fn() -> Duration> = std::sync::OnceLock::new();
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
const COARSE_TICK: Duration = Duration::from_millis(16);

/// Unix time that never jumps: it starts with the host's clock and continues with the monotonic one.
#[derive(Debug, Clone, Copy)]
pub struct SteadyClock {
    started_at_ms: u64,
    started: Instant,
}

impl SteadyClock {
    pub fn start() -> Self {
        Self {
            started_at_ms: system_now_ms(),
            started: Instant::now(),
        }
    }

    pub fn now_ms(&self) -> u64 {
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.started_at_ms.saturating_add(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_until_the_tolerance_is_over() {
        assert!(is_live(1000, 1999, 1000));
        assert!(!is_live(1000, 2000, 1000));
        assert!(is_live(1000, 999, 0));
        assert!(!is_live(1000, 1000, 0));
        assert!(is_live(0, 500, 1000));
    }
}
