//! The session for requests that are made on the event loop's thread, which serves it: where it is
//! kept, and when it is made.

use std::mem;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool::managed::Pool;
use tokio::time::{Instant, timeout};

use super::connect::{Dialer, Session};
use crate::event_loop::EventLoop;

/// A program that makes a few requests only needs no second connection.
const SOME: u32 = 3;
/// After so many it is tried again.
const MANY: u32 = 1000;

/// Before, what was true still is.
const A_MOMENT: Duration = Duration::from_millis(1);

pub(super) struct LaneSlot {
    home: Arc<dyn EventLoop>,
    state: Mutex<State>,
}

enum State {
    /// To be made after so many requests more.
    Absent(u32),
    BeingMade,
    Idle(Arc<Session>, Instant),
    InUse,
    Closed,
}

/// The session, in use. It goes back when this is dropped.
pub(super) struct OnLane<'a> {
    slot: &'a LaneSlot,
    session: Arc<Session>,
    is_good: bool,
}

impl LaneSlot {
    pub(super) fn new(home: Arc<dyn EventLoop>) -> Arc<Self> {
        Arc::new(Self {
            home,
            state: Mutex::new(State::Absent(SOME)),
        })
    }

    /// Nothing when it is in use, or when this is another thread.
    pub(super) fn take(&self, dialer: &Dialer) -> Option<OnLane<'_>> {
        if !self.home.is_here() {
            return None;
        }
        let mut state = self.lock();
        match mem::replace(&mut *state, State::InUse) {
            State::Idle(session, since) if is_alive(&session, since, dialer) => Some(OnLane {
                slot: self,
                session,
                is_good: true,
            }),
            State::Idle(unusable, _) => {
                *state = State::Absent(SOME);
                drop(state);
                drop(unusable);
                None
            }
            State::Absent(more) => {
                *state = State::Absent(more.saturating_sub(1));
                None
            }
            other => {
                *state = other;
                None
            }
        }
    }

    /// Makes it if it is wanted. `pool` has a session of our own, so there is no pooler.
    pub(super) fn make(self: &Arc<Self>, pool: &Pool<Dialer>, connect_timeout: Duration) {
        let mut state = self.lock();
        if !matches!(*state, State::Absent(0)) {
            return;
        }
        *state = State::BeingMade;
        drop(state);
        let (slot, pool) = (Arc::clone(self), pool.clone());
        tokio::spawn(async move {
            let making = pool.manager().lane(Arc::clone(&slot.home));
            let made = match timeout(connect_timeout, making).await {
                Ok(Ok(session)) if session.is_prepared() => {
                    State::Idle(Arc::new(session), Instant::now())
                }
                // There is the pool.
                _ => State::Absent(MANY),
            };
            slot.replace(made, |state| matches!(state, State::BeingMade));
        });
    }

    pub(super) fn close(&self) {
        self.replace(State::Closed, |_| true);
    }

    pub(super) fn close_idle(&self, limit: Duration) {
        self.replace(
            State::Absent(SOME),
            |state| matches!(state, State::Idle(_, since) if since.elapsed() >= limit),
        );
    }

    fn replace(&self, new: State, if_it: impl FnOnce(&State) -> bool) {
        let mut state = self.lock();
        // What ends is dropped when nothing is locked any more.
        let _old = if if_it(&state) {
            mem::replace(&mut *state, new)
        } else {
            new
        };
        drop(state);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While the event loop was busy nobody saw what became of it.
fn is_alive(session: &Session, since: Instant, dialer: &Dialer) -> bool {
    if since.elapsed() > A_MOMENT {
        session.look();
    }
    dialer.is_usable(session)
}

impl OnLane<'_> {
    /// Ends it.
    pub(super) fn give_up(mut self) {
        self.is_good = false;
    }
}

impl Deref for OnLane<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Drop for OnLane<'_> {
    fn drop(&mut self) {
        let next = if self.is_good && !self.session.is_waiting() {
            State::Idle(Arc::clone(&self.session), Instant::now())
        } else {
            State::Absent(SOME)
        };
        self.slot
            .replace(next, |state| matches!(state, State::InUse));
    }
}
