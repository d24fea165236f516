//! What is known of a lock document that somebody waits for.

use std::time::Duration;

use tokio::time::Instant;

use crate::backend::firestore::format::Snapshot;

/// Too far away to be computed with; an attempt before its time does no harm.
const FAR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[derive(Default)]
pub(super) struct Sight {
    state: State,
    /// Grows with everything after which an attempt makes sense.
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
    /// The document is like this now.
    pub(super) fn see(&mut self, document: &Snapshot, now_ms: u64) {
        let Some(live_for) = document.live_for(now_ms) else {
            return self.see_free();
        };
        let holder = document.holder().map(str::to_owned);
        // The same holder as before has extended its lock: nothing to be had.
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

    /// All there is to say of the document has been said.
    pub(super) fn complete(&mut self) {
        if matches!(self.state, State::Unknown) {
            self.see_free();
        }
    }

    /// Nobody tells of changes any more.
    pub(super) fn forget(&mut self) {
        self.state = State::Unknown;
    }

    pub(super) fn news(&self) -> u64 {
        self.news
    }

    /// From when on the lock can be had, as far as is known.
    pub(super) fn free_at(&self) -> Option<Instant> {
        match self.state {
            State::Unknown => None,
            State::Free { since } => Some(since),
            State::Locked { until, .. } => Some(until),
        }
    }
}
