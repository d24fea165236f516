//! How often to look. With its wake-up a look costs up to 100 µs of a core, and waiting must not cost
//! more than a hundredth of one. Each look costs time in a budget, which passing time pays off.

use std::time::{Duration, Instant};

/// The pause after a reported write. The write is reported before its commit can be seen, so a look may
/// come too early and the next one has to follow soon.
const SOON: Duration = Duration::from_micros(300);
/// The pause before one more look, for a process that was held up between its write and its commit.
const LATER: Duration = Duration::from_millis(10);
/// The time that pays for a look.
pub(super) const LOOK_COST: Duration = Duration::from_millis(15);
/// How many times its duration a look costs if that is more, because many keys are watched.
const COST_FACTOR: u32 = 20;
const MAX_LOOK_COST: Duration = Duration::from_millis(250);
/// The debt that is allowed: a few looks in a row do no harm.
const MAX_DEBT: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    Nothing,
    /// A commit that woke nobody.
    Commit,
    /// A commit that woke somebody.
    Change,
}

pub(super) struct Pace {
    pause: Duration,
    debt: Duration,
    since: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self {
            pause: SOON,
            debt: Duration::ZERO,
            since: Instant::now(),
        }
    }

    /// A write was reported. Its commit comes soon.
    pub(super) fn write_reported(&mut self) {
        self.pause = SOON;
    }

    pub(super) fn seen(&mut self, seen: Seen) {
        if seen != Seen::Nothing {
            self.pause = self.pause.max(LATER);
        }
        if seen == Seen::Change {
            // This look was worth its cost.
            self.debt = Duration::ZERO;
        }
    }

    /// Returns how long to wait after a look, at least and at most.
    pub(super) fn after(&mut self, took: Duration, max_pause: Duration) -> (Duration, Duration) {
        let now = Instant::now();
        let paid = now.saturating_duration_since(self.since);
        self.since = now;
        let cost = (took * COST_FACTOR).clamp(LOOK_COST, MAX_LOOK_COST);
        self.debt = self.debt.saturating_sub(paid) + cost;
        let least = self.debt.saturating_sub(MAX_DEBT).max(SOON);
        let most = self.pause.max(least);
        self.pause = if self.pause < LATER { LATER } else { max_pause };
        (least, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_PAUSE: Duration = Duration::from_millis(30);

    /// The pause if there is no debt.
    fn pause(pace: &mut Pace) -> Duration {
        pace.debt = Duration::ZERO;
        pace.after(Duration::ZERO, MAX_PAUSE).1
    }

    #[test]
    fn slows_down_until_something_happens() {
        let mut pace = Pace::new();
        let pauses = [(); 4].map(|()| pause(&mut pace));
        assert_eq!(pauses, [SOON, LATER, MAX_PAUSE, MAX_PAUSE]);
        pace.write_reported();
        pace.seen(Seen::Nothing);
        assert_eq!(pause(&mut pace), SOON);
        pace.write_reported();
        pace.seen(Seen::Commit);
        assert_eq!(pause(&mut pace), LATER);
        pace.seen(Seen::Change);
        assert_eq!(pause(&mut pace), MAX_PAUSE);
    }

    #[test]
    fn a_debt_has_to_be_paid_off() {
        let mut pace = Pace::new();
        for _ in 0..MAX_DEBT.as_millis() / LOOK_COST.as_millis() {
            assert_eq!(pace.after(Duration::ZERO, MAX_PAUSE).0, SOON);
        }
        // The cost of a single look is limited: the machine may have been suspended.
        for _ in 0..10 {
            pace.after(Duration::from_secs(1), MAX_PAUSE);
        }
        let (least, most) = pace.after(Duration::ZERO, MAX_PAUSE);
        assert!(least > MAX_LOOK_COST && least < MAX_LOOK_COST * 11 && most == least);
        pace.seen(Seen::Commit);
        assert!(pace.after(Duration::ZERO, MAX_PAUSE).0 > MAX_LOOK_COST);
        pace.seen(Seen::Change);
        assert_eq!(pace.after(Duration::ZERO, MAX_PAUSE).0, SOON);
    }
}
