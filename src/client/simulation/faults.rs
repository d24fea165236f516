//! What goes wrong between a client and the store in one run.

use std::time::Duration;

use super::random::Random;

/// The longest time of an operation. After it the operation fails.
pub(super) const OPERATION_LIMIT: Duration = Duration::from_secs(5);
/// How long a request may still be on its way after its sender was told that it failed.
const STRAY_MS: u64 = 400;
/// How far the store's clock may jump while locks are still safe.
pub(super) const SAFE_JUMP_MS: i64 = 900;

#[derive(Clone, Debug)]
pub(super) struct Faults {
    /// Whether nothing goes wrong and answers come quickly.
    pub calm: bool,
    lost_percent: u64,
    slow_percent: u64,
    pub notification_lost_percent: u64,
    pub notification_doubled_percent: u64,
    /// Whether the store notifies when a key changes.
    pub watches: bool,
    /// Whether a refusal says until when the holder has the key.
    pub tells_holder: bool,
    /// Whether the client believes that lines keep the order of requests, which they do not.
    pub seems_to_keep_order: bool,
    /// Whether the store's clock jumps further than any tolerance.
    pub wild_clock: bool,
    pub over: bool,
}

/// The fate of a request.
#[derive(Clone, Copy)]
pub(super) enum Fate {
    Answered { there: Duration, back: Duration },
    Refused { after: Duration },
    LostBefore { after: Duration },
    LostAfter { there: Duration, after: Duration },
    Stray { after: Duration, there: Duration },
}

impl Faults {
    pub(super) fn draw(random: &mut Random) -> Self {
        let calm = random.chance(30);
        let bad = |random: &mut Random, percents: &[u64]| {
            let percent = random.pick(percents);
            if calm { 0 } else { percent }
        };
        Self {
            calm,
            lost_percent: bad(random, &[0, 5, 15, 40]),
            slow_percent: bad(random, &[0, 5, 30]),
            notification_lost_percent: bad(random, &[0, 20, 100]),
            notification_doubled_percent: random.pick(&[0, 20]),
            watches: random.chance(65),
            tells_holder: random.chance(80),
            wild_clock: bad(random, &[0, 0, 0, 0, 0, 0, 0, 100]) > 0,
            seems_to_keep_order: random.chance(50),
            over: false,
        }
    }

    /// From now on everything works.
    pub(super) fn end(&mut self) {
        self.lost_percent = 0;
        self.slow_percent = 0;
        self.notification_lost_percent = 0;
        self.over = true;
    }

    pub(super) fn longest_operation(&self) -> Duration {
        if self.calm {
            Duration::from_millis(10)
        } else {
            OPERATION_LIMIT
        }
    }

    pub(super) fn latency(&self, random: &mut Random) -> Duration {
        if random.chance(self.slow_percent) {
            random.ms(10..2400)
        } else {
            random.ms(0..3)
        }
    }

    /// `may_stray`: whether the request may arrive after its sender gave up.
    pub(super) fn fate(&self, random: &mut Random, is_down: bool, may_stray: bool) -> Fate {
        if is_down {
            return if random.chance(50) {
                let after = random.ms(0..5);
                Fate::Refused { after }
            } else {
                let after = random.ms(1000..5000);
                Fate::LostBefore { after }
            };
        }
        let there = self.latency(random);
        if !random.chance(self.lost_percent) {
            let back = self.latency(random);
            return Fate::Answered { there, back };
        }
        let after = self.latency(random);
        match random.below(4) {
            0 => Fate::Refused { after },
            1 => Fate::LostBefore { after },
            2 if may_stray => {
                let late = random.ms(0..STRAY_MS);
                let there = after + late;
                Fate::Stray { after, there }
            }
            _ => Fate::LostAfter { there, after },
        }
    }
}
