//! Checks this host's clock against the server's. Locks in Firestore expire by the clients' clocks, so
//! a clock that is wrong is reported, once.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use prost_types::Timestamp;

use crate::backend::Warnings;

/// The difference between clocks that does not matter.
pub(super) const ALLOWED_OFFSET_MS: u64 = 500;

/// The least difference between this host's clock and the server's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offset {
    pub(super) ms: u64,
    pub(super) direction: &'static str,
}

pub(super) struct ClockCheck {
    warned: AtomicBool,
    last: Mutex<Option<Offset>>,
    warnings: Warnings,
}

impl ClockCheck {
    pub(super) fn new(warnings: Warnings) -> Self {
        Self {
            warned: AtomicBool::new(false),
            last: Mutex::default(),
            warnings,
        }
    }

    pub(super) fn last(&self) -> Option<Offset> {
        *self.last.lock()
    }

    /// Compares a time of the server, which was taken between the local times `sent_ms` and
    /// `received_ms`.
    pub(super) fn observe(&self, sent_ms: u64, server: Option<&Timestamp>, received_ms: u64) {
        let Some(server_ms) = server.and_then(timestamp_ms) else {
            return;
        };
        let (offset_ms, direction) = if server_ms < sent_ms {
            (sent_ms - server_ms, "ahead of")
        } else {
            (server_ms.saturating_sub(received_ms), "behind")
        };
        *self.last.lock() = Some(Offset {
            ms: offset_ms,
            direction,
        });
        if offset_ms > ALLOWED_OFFSET_MS && !self.warned.swap(true, Ordering::Relaxed) {
            self.warnings.warn(&format!(
                "This host's clock is at least {offset_ms} ms {direction} Firestore's. Locks are only safe while all hosts agree within {ALLOWED_OFFSET_MS} ms: synchronise the clock (NTP)"
            ));
        }
    }
}

fn timestamp_ms(timestamp: &Timestamp) -> Option<u64> {
    let seconds = u64::try_from(timestamp.seconds).ok()?;
    let ms = u64::try_from(timestamp.nanos).ok()? / 1_000_000;
    // Zero means that it is not set.
    seconds
        .checked_mul(1000)?
        .checked_add(ms)
        .filter(|ms| *ms > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    fn warnings_for(observations: &[(u64, i64, u64)]) -> Vec<String> {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&heard);
        let check = ClockCheck::new(Warnings::new(move |text| {
            sink.lock().unwrap().push(text.to_owned());
        }));
        for &(sent_ms, server_ms, received_ms) in observations {
            let server = Timestamp {
                seconds: server_ms / 1000,
                nanos: (server_ms % 1000 * 1_000_000) as i32,
            };
            check.observe(sent_ms, Some(&server), received_ms);
        }
        heard.lock().unwrap().clone()
    }

    #[test]
    fn a_slow_answer_is_not_a_wrong_clock() {
        assert!(warnings_for(&[(10_000, 10_001, 19_000), (10_000, 18_999, 19_000)]).is_empty());
        assert!(warnings_for(&[(10_000, 9_500, 10_001), (10_000, 10_501, 10_001)]).is_empty());
        assert!(warnings_for(&[(10_000, 0, 10_001), (10_000, -5_000, 10_001)]).is_empty());
    }

    #[test]
    fn an_offset_is_reported_once() {
        let ahead = warnings_for(&[(10_000, 9_499, 10_001), (10_000, 1, 10_001)]);
        assert_eq!(ahead.len(), 1);
        assert!(ahead[0].contains("501 ms ahead of"), "{ahead:?}");
        let behind = warnings_for(&[(10_000, 70_001, 10_001)]);
        assert!(behind[0].contains("60000 ms behind"), "{behind:?}");
    }
}
