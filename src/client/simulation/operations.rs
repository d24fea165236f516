//! Operations in flight, and how long they may take.

use std::time::Duration;

use crate::client::host::Moment;
use crate::lock::LockId;

/// The limit for what happens at once. Time passes only when nobody has anything to do.
pub(super) const PROMPT: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A wait for a hold, with the longest time between two attempts.
    Wait {
        backoff: Duration,
    },
    TryHold,
    Acquire,
    /// An operation on a lock that the caller has.
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
    /// Whether its machine slept in the meantime.
    pub disturbed: bool,
    /// Whether another caller of its machine has the lock. Until that one releases it, nobody on this
    /// machine watches the key.
    pub relies_on_holder: bool,
}

impl Operation {
    fn is_hold(&self) -> bool {
        matches!(self.kind, Kind::Wait { .. } | Kind::TryHold)
    }

    pub(super) fn is_late(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| now > until)
    }

    /// Whether it may acquire a lock of this key on this machine.
    pub(super) fn wants(&self, machine: usize, key: usize) -> bool {
        let acquires = self.is_hold() || self.kind == Kind::Acquire;
        acquires && self.machine == machine && self.key == key
    }

    /// A wait for a hold ends as soon as it is cancelled. A single acquire runs to its end.
    pub(super) fn ends_now(&mut self, now: Moment) {
        if self.is_hold() {
            let soon = now + PROMPT;
            self.until = Some(self.until.map_or(soon, |until| until.min(soon)));
        }
    }

    /// The deadline of a hold follows the clock, which continued during the sleep.
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

    /// Whether `other` came first and still waits.
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
