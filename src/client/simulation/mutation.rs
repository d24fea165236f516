//! Ways to break the engine on purpose, to prove that the simulation detects faults. The engine checks for
//! these only in test builds.

use std::cell::Cell;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client) enum Mutation {
    ValidFromAnswer,
    ExtendedFromAnswer,
    ShortenedByAnswer,
    ShortenedOutOfTurn,
    MinHoldFromRequest,
    ExtendedAfterEnd,
    NotUndone,
    OneLook,
    NobodyWoken,
    AskedOnce,
    TurnKept,
    LastComeFirst,
    DeadlineForgotten,
    HoldsLeft,
    CancelForgotten,
    LimitIgnored,
    MarkIgnored,
    MarkNotLeft,
    MarkNotRenewed,
    MarkForgotten,
    SharerNotWoken,
    NextSharerNotWoken,
    KeysUnsorted,
    BehindKept,
    SetLeft,
}

thread_local! {
    static BROKEN: Cell<Option<Mutation>> = const { Cell::new(None) };
}

impl Mutation {
    pub(in crate::client) fn is_on(self) -> bool {
        BROKEN.get() == Some(self)
    }

    /// Returns the wrong value if the engine is broken in this way.
    pub(in crate::client) fn instead<T>(self, right: T, wrong: T) -> T {
        if self.is_on() { wrong } else { right }
    }

    /// Breaks the engine on this thread until the returned guard is dropped.
    pub(super) fn switch_on(self) -> Broken {
        BROKEN.set(Some(self));
        Broken
    }
}

pub(super) struct Broken;

impl Drop for Broken {
    fn drop(&mut self) {
        BROKEN.set(None);
    }
}
