//! How to follow a key that others want as well. A holder that stays is watched. Where the key
//! passes quickly between many that does not pay: hundreds of processes that are all woken by each
//! release take more time from each other than the lock is held. They try at random moments instead.

use std::time::Duration;

use super::host::Moment;
use crate::backend::Holder;

/// Where callers of one process hand a key to each other, it need not be watched.
const WATCH_AFTER: Duration = Duration::from_millis(5);
/// Between two attempts that belong together. The heartbeat of a holder is slower.
const TOGETHER: Duration = Duration::from_millis(250);
/// A holder stays when it was seen for so long...
const STAYS: Duration = Duration::from_millis(60);
/// ...and for so many times as long as an attempt takes: where many wait, all is slow.
const STAYS_PER_ANSWER: u32 = 16;
/// More says nothing: a connection may have been made.
const SLOWEST: Duration = Duration::from_millis(100);
/// So often another may be quicker before it is left to chance again...
const RACES: u32 = 8;
/// ...and so often chance may fail before there are races: there may be few others.
const CHANCES: u32 = 64;
/// An attempt that is left to chance comes after so many times as long as the last one took: a
/// store that has much to do is asked less often.
const PAUSE_PER_ANSWER: u32 = 16;
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

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

/// What the attempts of one wait have shown.
#[derive(Default)]
pub(super) struct Rivals {
    seen: Option<Sighting>,
    /// How long attempts take; it counts half at each further one.
    slowness: Duration,
    races: bool,
    /// How often in a row another one had the key than shortly before.
    lost: u32,
}

#[derive(Clone, Copy)]
struct Sighting {
    /// By this one holder is told from another.
    expires_at_ms: u64,
    first: Moment,
    last: Moment,
}

impl Rivals {
    /// How to go on after an attempt that was refused just now, and took so long. `random` is
    /// between 0 and 1.
    pub(super) fn refused(
        &mut self,
        holder: Option<Holder>,
        now: Moment,
        took: Duration,
        random: f64,
    ) -> Follow {
        self.slowness = took.min(SLOWEST).max(self.slowness / 2);
        let before = self.seen.take();
        let Some(Holder { expires_at_ms, .. }) = holder else {
            return self.race(now);
        };
        let same = before.filter(|before| before.expires_at_ms == expires_at_ms);
        let first = same.map_or(now, |before| before.first);
        self.seen = Some(Sighting {
            expires_at_ms,
            first,
            last: now,
        });
        let is_race = before.is_some_and(|before| now.since(before.last) < TOGETHER);
        if same.is_some() || !is_race {
            self.lost = 0;
        } else {
            self.lost += 1;
        }
        let stays = now.since(first) >= STAYS.max(self.slowness * STAYS_PER_ANSWER);
        let limit = if self.races { RACES } else { CHANCES };
        if stays || (!self.races && self.lost >= limit) || (self.races && self.lost < limit) {
            return self.race(now);
        }
        if std::mem::take(&mut self.races) {
            self.lost = 0;
        }
        let pause = (took * PAUSE_PER_ANSWER).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        Follow::TryAt(now + pause.mul_f64(1.0 + 2.0 * random))
    }

    /// From now on whoever is woken first has it.
    fn race(&mut self, now: Moment) -> Follow {
        if !std::mem::replace(&mut self.races, true) {
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

    /// Refused at `now`, by a holder that has it since `since`.
    fn refused(rivals: &mut Rivals, now: u64, since: u64) -> Follow {
        let expires_at_ms = since + TTL_MS;
        let holder = Holder {
            free_in: Duration::from_millis(expires_at_ms - now),
            expires_at_ms,
        };
        rivals.refused(Some(holder), at(now), QUICK, 0.5)
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
        assert!(next >= at(100) + SHORTEST_PAUSE && next <= at(100) + SHORTEST_PAUSE * 3);
        assert!(!is_watched(refused(&mut rivals, 120, 90)));
        assert!(is_watched(refused(&mut rivals, 160, 90)));
        // Its heartbeats.
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
        };
        let mut seen = |now| rivals.refused(Some(holder), at(now), slow, 0.0);
        let Follow::TryAt(next) = seen(100) else {
            panic!("it may be one of many");
        };
        assert_eq!(next, at(100) + LONGEST_PAUSE);
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
            assert_eq!(chances.count() + 1, CHANCES as usize);
            let races = std::iter::from_fn(|| turn(&mut rivals).then_some(()));
            assert_eq!(races.count() + 1, RACES as usize);
        }
    }
}
