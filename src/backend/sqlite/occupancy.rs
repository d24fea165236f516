//! Who holds a key, as far as a watch must know: it compares what it sees with what it saw before, and
//! wakes its waiters if the key may have become free for one of them.

use rusqlite::Connection;

use super::store::Record;

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Occupancy {
    /// The lockId of the lock or of the shared record.
    record_id: String,
    sharing: Option<Sharing>,
}

#[derive(Clone, PartialEq, Eq)]
struct Sharing {
    /// How many shares of this key have ended: the last fence minus the live holders. It also shows a holder
    /// that came and went between two looks.
    ended: u64,
    /// The last mark that has ended.
    ended_mark: Option<String>,
}

impl Occupancy {
    /// Returns what holds the key. None if it is free for anybody.
    pub(super) fn of(db: &Connection, key: &str, now_ms: u64) -> rusqlite::Result<Option<Self>> {
        let Some(record) = Record::find(db, key)? else {
            return Ok(None);
        };
        let shared = record.shared(db, now_ms)?;
        let is_free = match &shared {
            Some(shared) => shared.is_free(now_ms),
            None => !record.is_live(now_ms),
        };
        let sharing = shared.map(|shared| Sharing {
            ended: record.fence.saturating_sub(shared.holders.len() as u64),
            ended_mark: shared.ended_mark(now_ms).map(str::to_owned),
        });
        Ok((!is_free).then_some(Self {
            record_id: record.lock_id,
            sharing,
        }))
    }

    pub(super) fn is_shared(&self) -> bool {
        self.sharing.is_some()
    }

    /// Whether an attempt that was refused before may succeed now.
    pub(super) fn may_admit_more(before: Option<&Self>, now: Option<&Self>) -> bool {
        match (before, now) {
            (_, None) => true,
            // An attempt was refused between the two looks. Shares may have ended since.
            (None, Some(now)) => now.is_shared(),
            (Some(before), Some(now)) if before.record_id != now.record_id => true,
            (Some(before), Some(now)) => match (&before.sharing, &now.sharing) {
                (Some(before), Some(now)) => {
                    let has_ended = |mark| before.ended_mark.as_ref() != Some(mark);
                    before.ended != now.ended || now.ended_mark.as_ref().is_some_and(has_ended)
                }
                _ => before.sharing != now.sharing,
            },
        }
    }
}
