//! What is known of a lock document that somebody waits for.

use std::time::Duration;

use tokio::time::Instant;

use crate::backend::firestore::format::Snapshot;

/// Caps an expiry so that the clock cannot overflow. An attempt before the real expiry does no harm.
const FAR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[derive(Default)]
pub(super) struct Sight {
    state: State,
    /// Incremented by every change after which another attempt makes sense.
    news: u64,
}

#[derive(Default)]
enum State {
    #[default]
    Unknown,
    Free {
        since: Instant,
    },
    Locked {
        holder: Option<String>,
        until: Instant,
    },
}

impl Sight {
    /// Records the current content of the document.
    pub(super) fn see(&mut self, document: &Snapshot, now_ms: u64) {
        let Some(live_for) = document.live_for(now_ms) else {
            return self.see_free();
        };
        let holder = document.holder().map(str::to_owned);
        // If the holder is the same, it has extended its lock: an attempt would be refused.
        if matches!(&self.state, State::Locked { holder: before, .. } if *before != holder) {
            self.news += 1;
        }
        let until = Instant::now() + live_for.min(FAR);
        self.state = State::Locked { holder, until };
    }

    pub(super) fn see_free(&mut self) {
        let since = Instant::now();
        self.state = State::Free { since };
        self.news += 1;
    }

    /// The server has sent everything about the document: if it sent nothing, there is no document.
    pub(super) fn complete(&mut self) {
        if matches!(self.state, State::Unknown) {
            self.see_free();
        }
    }

    /// The stream is gone, so what is known may be out of date.
    pub(super) fn forget(&mut self) {
        self.state = State::Unknown;
    }

    pub(super) fn news(&self) -> u64 {
        self.news
    }

    /// Returns when the lock becomes free, as far as is known.
    pub(super) fn free_at(&self) -> Option<Instant> {
        match self.state {
            State::Unknown => None,
            State::Free { since } => Some(since),
            State::Locked { until, .. } => Some(until),
        }
    }
}
