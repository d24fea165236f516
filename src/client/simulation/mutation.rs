//! Ways to break the engine on purpose: a simulation that notices nothing is worth nothing. The
//! places in the engine that ask for these are not part of any build but that of the tests.

use std::cell::Cell;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client) enum Mutation {
    ValidFromAnswer,
    ExtendedFromAnswer,
    ShortenedByAnswer,
    NotUndone,
    OneLook,
    NobodyWoken,
    AskedOnce,
    TurnKept,
    LastComeFirst,
    DeadlineForgotten,
    HoldsLeft,
    CancelForgotten,
}

thread_local! {
    static BROKEN: Cell<Option<Mutation>> = const { Cell::new(None) };
}

impl Mutation {
    pub(in crate::client) fn is_on(self) -> bool {
        BROKEN.get() == Some(self)
    }

    /// The wrong one in an engine that is broken in this way.
    pub(in crate::client) fn instead<T>(self, right: T, wrong: T) -> T {
        if self.is_on() { wrong } else { right }
    }

    /// For this thread, until what it returns is dropped.
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
