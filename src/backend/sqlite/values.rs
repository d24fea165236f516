//! How times and texts are stored in the tables.

use rusqlite::{Row, RowIndex};

use crate::lock::time::{TIME_TOLERANCE_MS, is_live};

/// Reads a time in milliseconds. Only other programs write a negative one, which counts as long past.
pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

/// Reads a text. None if another program has stored something else there.
pub(super) fn text<'a>(row: &'a Row<'_>, column: impl RowIndex) -> Option<&'a str> {
    row.get_ref(column).ok()?.as_str_or_null().ok()?
}

pub(super) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn live(expires_at_ms: u64, now_ms: u64) -> bool {
    is_live(expires_at_ms, now_ms, TIME_TOLERANCE_MS)
}

/// Returns the time that a live lock expires after, so that SQL can compare as [`live`] does. It may be
/// negative.
pub(super) fn live_after(now_ms: u64) -> i64 {
    stored(now_ms) - stored(TIME_TOLERANCE_MS)
}

/// Whether a time lies in the future, because the clock was set back since it was stored.
pub(super) fn is_future(at_ms: u64, now_ms: u64) -> bool {
    at_ms > now_ms.saturating_add(TIME_TOLERANCE_MS)
}
