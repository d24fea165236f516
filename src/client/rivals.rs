//! How to wait for a key that other processes want as well.
//!
//! If one holder keeps the key, the key is watched, and a release wakes the waiter. That does not pay
//! where many processes hold the key for a short time each: all of them would be woken by each
//! release and slow each other down. Such waiters poll at random moments instead.

use std::time::Duration;

use super::host::Moment;
use crate::backend::Holder;

/// The delay before a key is watched. A key that callers of one process hand to each other faster than
/// this is not watched.
const WATCH_AFTER: Duration = Duration::from_millis(5);
/// The longest pause between two attempts that are compared. It is shorter than the interval of a holder's
/// heartbeats, which would otherwise look like new holders.
const MAX_ATTEMPT_GAP: Duration = Duration::from_millis(250);
/// How long a holder must have been seen before it counts as one that keeps the key.
const MIN_STAY: Duration = Duration::from_millis(60);
/// The same in durations of an attempt, because everything is slow with many waiters. The longer of the two
/// times counts.
const MIN_STAY_IN_ATTEMPTS: u32 = 16;
/// The longest duration of an attempt that counts. A longer one probably had to connect first.
const MAX_ATTEMPT_TIME: Duration = Duration::from_millis(100);
/// How many races for a released key are lost before polling at random.
const MAX_LOST_RACES: u32 = 8;
/// How many random polls are lost before the key is watched again: there may be few other processes.
const MAX_LOST_POLLS: u32 = 64;
/// The base of the pause before a random poll, as a multiple of the last attempt's duration, so that a
/// busy store is polled less often. The pause itself is one to three times the base, at random.
const PAUSE_IN_ATTEMPTS: u32 = 16;
const MIN_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// How a waiter follows the key after a refused attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    WatchFrom(Moment),
    TryAt(Moment),
}

impl Follow {
    pub(super) fn watch_soon(now: Moment) -> Self {
        Self::WatchFrom(now + WATCH_AFTER)
    }
}

/// What the attempts of one wait have shown of other processes.
#[derive(Default)]
pub(super) struct Rivals {
    seen: Option<Sighting>,
    /// How long attempts take: the longest of the last ones, halved at each further attempt.
    attempt_time: Duration,
    /// Whether the key is watched, so that the process that is woken first acquires it.
    is_racing: bool,
    /// How many times in a row the holder was not the one that was seen shortly before.
    lost: u32,
}

#[derive(Clone, Copy)]
struct Sighting {
    /// Tells one holder from another.
    expires_at_ms: u64,
    first: Moment,
    last: Moment,
}

impl Rivals {
    /// Decides how to follow the key after an attempt that was refused at `now` and took `took`.
    /// `random` is between 0 and 1.
    pub(super) fn refused(
        &mut self,
        holder: Option<&Holder>,
        now: Moment,
        took: Duration,
        random: f64,
    ) -> Follow {
        self.attempt_time = took.min(MAX_ATTEMPT_TIME).max(self.attempt_time / 2);
        let before = self.seen.take();
        let Some(&Holder { expires_at_ms, .. }) = holder else {
            return self.race(now);
        };
        let same = before.filter(|before| before.expires_at_ms == expires_at_ms);
        let first = same.map_or(now, |before| before.first);
        self.seen = Some(Sighting {
            expires_at_ms,
            first,
            last: now,
        });
        let is_race = before.is_some_and(|before| now.since(before.last) < MAX_ATTEMPT_GAP);
        if same.is_some() || !is_race {
            self.lost = 0;
        } else {
            self.lost += 1;
        }
        let stays = now.since(first) >= MIN_STAY.max(self.attempt_time * MIN_STAY_IN_ATTEMPTS);
        let limit = if self.is_racing {
            MAX_LOST_RACES
        } else {
            MAX_LOST_POLLS
        };
        if stays || (!self.is_racing && self.lost >= limit) || (self.is_racing && self.lost < limit)
        {
            return self.race(now);
        }
        if std::mem::take(&mut self.is_racing) {
            self.lost = 0;
        }
        let pause = (took * PAUSE_IN_ATTEMPTS).clamp(MIN_PAUSE, MAX_PAUSE);
        Follow::TryAt(now + pause.mul_f64(1.0 + 2.0 * random))
    }

    /// Decides to watch the key.
    fn race(&mut self, now: Moment) -> Follow {
        if !std::mem::replace(&mut self.is_racing, true) {
            self.lost = 0;
        }
        Follow::watch_soon(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL_MS: u64 = 30_000;
    const QUICK: Duration = Duration::from_micros(200);

    fn at(ms: u64) -> Moment {
        Moment::after_start(Duration::from_millis(ms))
    }

    /// Records a refusal at `now` by a holder that has had the key since `since`.
    fn refused(rivals: &mut Rivals, now: u64, since: u64) -> Follow {
        let expires_at_ms = since + TTL_MS;
        let holder = Holder {
            free_in: Duration::from_millis(expires_at_ms - now),
            expires_at_ms,
            is_shared: false,
            label: None,
        };
        rivals.refused(Some(&holder), at(now), QUICK, 0.5)
    }

    fn is_watched(follow: Follow) -> bool {
        matches!(follow, Follow::WatchFrom(_))
    }

    #[test]
    fn a_holder_that_stays_is_watched() {
        let mut rivals = Rivals::default();
        let Follow::TryAt(next) = refused(&mut rivals, 100, 90) else {
            panic!("it may be one of many");
        };
        assert!(next >= at(100) + MIN_PAUSE && next <= at(100) + MIN_PAUSE * 3);
        assert!(!is_watched(refused(&mut rivals, 120, 90)));
        assert!(is_watched(refused(&mut rivals, 160, 90)));
        // The holder's heartbeats change its expiry.
        for turn in 1..30 {
            let now = turn * 400;
            assert!(is_watched(refused(&mut rivals, now, now - 5)));
        }
    }

    #[test]
    fn where_all_is_slow_it_takes_longer_to_tell() {
        let mut rivals = Rivals::default();
        let slow = Duration::from_millis(30);
        let holder = Holder {
            free_in: Duration::from_secs(1),
            expires_at_ms: 1000,
            is_shared: false,
            label: None,
        };
        let mut seen = |now| rivals.refused(Some(&holder), at(now), slow, 0.0);
        let Follow::TryAt(next) = seen(100) else {
            panic!("it may be one of many");
        };
        assert_eq!(next, at(100) + MAX_PAUSE);
        assert!(!is_watched(seen(300)));
        assert!(!is_watched(seen(570)));
        assert!(is_watched(seen(580)));
    }

    #[test]
    fn a_holder_of_whom_nothing_is_known_is_watched() {
        let follow = Rivals::default().refused(None, at(11), QUICK, 0.5);
        assert!(is_watched(follow));
    }

    #[test]
    fn many_chances_are_left_to_a_race_and_many_lost_races_to_chance() {
        let mut rivals = Rivals::default();
        let mut now = 100;
        let mut turn = |rivals: &mut Rivals| {
            now += 20;
            is_watched(refused(rivals, now, now - 5))
        };
        assert!(!turn(&mut rivals));
        for _ in 0..3 {
            let chances = std::iter::from_fn(|| (!turn(&mut rivals)).then_some(()));
            assert_eq!(chances.count() + 1, MAX_LOST_POLLS as usize);
            let races = std::iter::from_fn(|| turn(&mut rivals).then_some(()));
            assert_eq!(races.count() + 1, MAX_LOST_RACES as usize);
        }
    }
}
