//! Operations in flight, and how long they may take.

use std::time::Duration;

use crate::client::host::Moment;
use crate::lock::{Access, LockId};

/// The limit for what happens at once. Time passes only when nobody has anything to do.
pub(super) const PROMPT: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A wait for a hold, with the longest time between two attempts.
    Wait {
        backoff: Duration,
    },
    TryHold,
    /// As above, for several keys at once.
    WaitForSeveral {
        backoff: Duration,
    },
    TrySeveral,
    Acquire,
    /// An operation on a lock that the caller has.
    Use,
    Close,
}

/// A set of keys, by their numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Keys(u8);

impl Keys {
    pub(super) fn contains(self, key: usize) -> bool {
        self.0 & (1 << key) != 0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..8).filter(move |key| self.contains(*key))
    }
}

impl From<usize> for Keys {
    fn from(key: usize) -> Self {
        Self(1 << key)
    }
}

impl FromIterator<usize> for Keys {
    fn from_iter<T: IntoIterator<Item = usize>>(keys: T) -> Self {
        Self(keys.into_iter().fold(0, |all, key| all | 1 << key))
    }
}

/// What a caller asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub machine: usize,
    pub keys: Keys,
    pub access: Access,
    pub kind: Kind,
    /// The lock that is used, if the caller has it already.
    pub lock_id: Option<LockId>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    pub id: usize,
    pub asked: Asked,
    pub started: Moment,
    pub until: Option<Moment>,
    pub cancelled: bool,
    /// Whether its machine slept in the meantime.
    pub disturbed: bool,
    /// Whether another caller of its machine has the exclusive lock. Until that one releases it, nobody
    /// on this machine watches the key.
    pub relies_on_holder: bool,
    /// Since when it is the first that waits for the key on its machine.
    pub first_since: Option<Moment>,
}

impl Operation {
    fn is_hold(&self) -> bool {
        !matches!(self.asked.kind, Kind::Acquire | Kind::Use | Kind::Close)
    }

    pub(super) fn is_late(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| now > until)
    }

    /// Whether it may acquire a lock of this key on this machine.
    pub(super) fn wants(&self, machine: usize, key: usize) -> bool {
        let acquires = self.is_hold() || self.asked.kind == Kind::Acquire;
        acquires && self.asked.machine == machine && self.asked.keys.contains(key)
    }

    /// The longest time between two attempts of a wait.
    pub(super) fn backoff(&self) -> Option<Duration> {
        match self.asked.kind {
            Kind::Wait { backoff } | Kind::WaitForSeveral { backoff } => Some(backoff),
            _ => None,
        }
    }

    pub(super) fn waits_for_one(&self) -> bool {
        matches!(self.asked.kind, Kind::Wait { .. })
    }

    pub(super) fn waits_for_several(&self) -> bool {
        matches!(self.asked.kind, Kind::WaitForSeveral { .. })
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
        let is_over = other.cancelled || other.until.is_some_and(|until| now + PROMPT >= until);
        self.waits_for_one()
            && other.waits_for_one()
            && self.asked.machine == other.asked.machine
            && self.asked.keys == other.asked.keys
            && other.started + surely_waits < self.started
            && !other.disturbed
            && !is_over
    }
}
