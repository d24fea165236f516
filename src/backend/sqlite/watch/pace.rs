//! How often to look. With the waking up a look costs up to 100 µs of a core, and waiting must not
//! cost more than a hundredth of one.

use std::time::{Duration, Instant};

/// A write is heard before its commit can be seen, so a look may be too early. Then the next one
/// comes soon...
const SOON: Duration = Duration::from_micros(300);
/// ...and one more later, for a process that was held up in between.
const LATER: Duration = Duration::from_millis(10);
/// So long a look is paid off...
pub(super) const PRICE: Duration = Duration::from_millis(15);
/// ...or, when it took long because many wait, so many times as long.
const PRICE_FACTOR: u32 = 20;
const HIGHEST_PRICE: Duration = Duration::from_millis(250);
/// What may be owed: some looks in a row are no harm.
const CREDIT: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    Nothing,
    /// One that told nobody anything.
    Commit,
    /// One that somebody was told of.
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

    /// A write was heard: its commit comes soon.
    pub(super) fn heard(&mut self) {
        self.pause = SOON;
    }

    pub(super) fn seen(&mut self, seen: Seen) {
        if seen != Seen::Nothing {
            self.pause = self.pause.max(LATER);
        }
        if seen == Seen::Change {
            // It was worth the cost.
            self.debt = Duration::ZERO;
        }
    }

    /// How long to wait after a look, at least and at most.
    pub(super) fn after(&mut self, took: Duration, longest: Duration) -> (Duration, Duration) {
        let now = Instant::now();
        let paid = now.saturating_duration_since(self.since);
        self.since = now;
        let price = (took * PRICE_FACTOR).clamp(PRICE, HIGHEST_PRICE);
        self.debt = self.debt.saturating_sub(paid) + price;
        let least = self.debt.saturating_sub(CREDIT).max(SOON);
        let most = self.pause.max(least);
        self.pause = if self.pause < LATER { LATER } else { longest };
        (least, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_millis(30);

    /// Nothing is owed.
    fn pause(pace: &mut Pace) -> Duration {
        pace.debt = Duration::ZERO;
        pace.after(Duration::ZERO, LONGEST).1
    }

    #[test]
    fn slows_down_until_something_happens() {
        let mut pace = Pace::new();
        let pauses = [(); 4].map(|()| pause(&mut pace));
        assert_eq!(pauses, [SOON, LATER, LONGEST, LONGEST]);
        pace.heard();
        pace.seen(Seen::Nothing);
        assert_eq!(pause(&mut pace), SOON);
        pace.heard();
        pace.seen(Seen::Commit);
        assert_eq!(pause(&mut pace), LATER);
        pace.seen(Seen::Change);
        assert_eq!(pause(&mut pace), LONGEST);
    }

    #[test]
    fn what_is_owed_is_waited_for() {
        let mut pace = Pace::new();
        for _ in 0..CREDIT.as_millis() / PRICE.as_millis() {
            assert_eq!(pace.after(Duration::ZERO, LONGEST).0, SOON);
        }
        // However long it took: the machine may have been asleep.
        for _ in 0..10 {
            pace.after(Duration::from_secs(1), LONGEST);
        }
        let (least, most) = pace.after(Duration::ZERO, LONGEST);
        assert!(least > HIGHEST_PRICE && least < HIGHEST_PRICE * 11 && most == least);
        pace.seen(Seen::Commit);
        assert!(pace.after(Duration::ZERO, LONGEST).0 > HIGHEST_PRICE);
        pace.seen(Seen::Change);
        assert_eq!(pace.after(Duration::ZERO, LONGEST).0, SOON);
    }
}
