//! What is under way, and how long it may take.

use std::time::Duration;

use crate::client::host::Moment;
use crate::lock::LockId;

/// At once: time passes only when nobody has anything to do.
pub(super) const PROMPT: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A hold that is waited for, and at most so long between two attempts.
    Wait {
        backoff: Duration,
    },
    TryHold,
    Acquire,
    /// With a lock that the caller has.
    Use,
    Close,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    pub id: usize,
    pub machine: usize,
    pub key: usize,
    pub kind: Kind,
    pub lock_id: Option<LockId>,
    pub started: Moment,
    pub until: Option<Moment>,
    pub cancelled: bool,
    /// Its machine slept meanwhile.
    pub disturbed: bool,
    /// Another of its machine got the lock. Until that gives it back, nobody there watches the key.
    pub relies_on_holder: bool,
}

impl Operation {
    fn is_hold(&self) -> bool {
        matches!(self.kind, Kind::Wait { .. } | Kind::TryHold)
    }

    pub(super) fn is_late(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| now > until)
    }

    /// Whether it may get a lock of this key on this machine.
    pub(super) fn wants(&self, machine: usize, key: usize) -> bool {
        let acquires = self.is_hold() || self.kind == Kind::Acquire;
        acquires && self.machine == machine && self.key == key
    }

    /// A hold ends as soon as nobody wants it. A single acquire runs to its end.
    pub(super) fn ends_now(&mut self, now: Moment) {
        if self.is_hold() {
            let soon = now + PROMPT;
            self.until = Some(self.until.map_or(soon, |until| until.min(soon)));
        }
    }

    /// The deadline of a hold is one of the clock, which went on.
    pub(super) fn suspended(&mut self, on_time: Moment, duration: Duration) {
        self.disturbed = true;
        let is_hold = self.is_hold();
        self.until = self.until.map(|until| {
            if is_hold {
                until.max(on_time + PROMPT)
            } else {
                until + duration
            }
        });
    }

    /// Whether `other` was there first, and waits still.
    pub(super) fn overtakes(&self, other: &Self, surely_waits: Duration, now: Moment) -> bool {
        let both_wait =
            matches!(self.kind, Kind::Wait { .. }) && matches!(other.kind, Kind::Wait { .. });
        let is_over = other.cancelled || other.until.is_some_and(|until| now + PROMPT >= until);
        both_wait
            && self.machine == other.machine
            && self.key == other.key
            && other.started + surely_waits < self.started
            && !other.disturbed
            && !is_over
    }
}
