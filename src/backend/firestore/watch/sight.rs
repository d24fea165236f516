//! What the server has told about a watched document.

use std::time::Duration;

use tokio::time::Instant;

use crate::backend::firestore::format::Snapshot;

/// Caps an expiry so that the clock cannot overflow. An attempt before the real expiry does no harm.
const FAR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[derive(Default)]
pub(super) enum Sight {
    #[default]
    Unknown,
    Free,
    Locked {
        holder: Option<String>,
        until: Instant,
    },
}

impl Sight {
    pub(super) fn of(document: &Snapshot, now_ms: u64) -> Self {
        match document.live_for(now_ms) {
            Some(live_for) => Self::Locked {
                holder: document.holder().map(str::to_owned),
                until: Instant::now() + live_for.min(FAR),
            },
            None => Self::Free,
        }
    }

    /// Returns whether an attempt to acquire makes sense after the change from `before`. If the holder
    /// is the same, it has extended its lock.
    pub(super) fn is_news_after(&self, before: &Self) -> bool {
        match (before, self) {
            (_, Self::Free) => true,
            (Self::Locked { holder: before, .. }, Self::Locked { holder, .. }) => before != holder,
            _ => false,
        }
    }

    /// Returns whether another attempt makes sense although the server reported nothing: the lock has
    /// expired, or it still seems free. Another process may have held it so briefly that the server
    /// did not report it.
    pub(super) fn look_again(&mut self) -> bool {
        if matches!(self, Self::Locked { until, .. } if *until <= Instant::now()) {
            *self = Self::Free;
        }
        matches!(self, Self::Free)
    }
}
