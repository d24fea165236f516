//! Shared records: several holders of one key, and the mark of a writer that waits for them.
//!
//! A shared record is a row of `syncguard_locks`, like an exclusive lock. Its lockId is held by nobody,
//! and it expires with its last holder. Programs that only know exclusive locks therefore see a lock that
//! is not theirs. The holders and the mark are rows of `syncguard_holders` with this lockId as their
//! `record_id`. An exclusive lock has no such rows.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::values::{is_future, live, live_after, stored, text, time};
use crate::backend::{AcquireRequest, Holder};
use crate::lock::share::{MARK_LEASE_MS, Mark, admitted_at, smallest_free_slot};
use crate::lock::time::TIME_TOLERANCE_MS;
use crate::lock::{Access, Fence, HolderLabel, LockId, Share};

/// A record without holders has expired. Programs that do not know its mark may replace it.
const EXPIRED: u64 = 0;

pub(super) struct SharedRecord {
    id: String,
    /// The live ones.
    pub(super) holders: Vec<SharedHolder>,
    mark: Option<StoredMark>,
}

pub(super) struct SharedHolder {
    pub(super) lock_id: String,
    pub(super) slot: u32,
    pub(super) expires_at_ms: u64,
    pub(super) acquired_at_ms: u64,
    pub(super) fence: String,
    pub(super) label: Option<HolderLabel>,
}

struct StoredMark {
    id: String,
    until_ms: u64,
}

impl StoredMark {
    /// A mark that lasts longer than its lease comes from before the clock was set back.
    fn is_live(&self, now_ms: u64) -> bool {
        self.until_ms > now_ms && self.until_ms - now_ms <= MARK_LEASE_MS
    }
}

impl SharedHolder {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            lock_id: text(row, "lock_id").unwrap_or_default().to_owned(),
            // A slot that no program of ours has stored is just never free.
            slot: u32::try_from(row.get::<_, i64>(1)?).unwrap_or(u32::MAX),
            expires_at_ms: time(row, 2)?,
            acquired_at_ms: time(row, 3)?,
            fence: text(row, "fence").unwrap_or_default().to_owned(),
            label: text(row, "holder_label").and_then(HolderLabel::from_stored),
        })
    }

    fn as_holder(&self, now_ms: u64) -> Holder {
        let free_at_ms = self.expires_at_ms.saturating_add(TIME_TOLERANCE_MS);
        Holder {
            free_in: Duration::from_millis(free_at_ms.saturating_sub(now_ms)),
            expires_at_ms: self.expires_at_ms,
            is_shared: true,
            label: self.label.clone(),
        }
    }
}

impl SharedRecord {
    /// Reads the holders and the mark of a record that expires at this time. None if the record is an
    /// exclusive lock.
    pub(super) fn read(
        db: &Connection,
        id: &str,
        expires_at_ms: u64,
        now_ms: u64,
    ) -> rusqlite::Result<Option<Self>> {
        let mut statement = db.prepare_cached(include_str!("sql/holders.sql"))?;
        let mut rows = statement.query([id])?;
        let mut is_shared = false;
        let mut record = Self {
            id: id.to_owned(),
            holders: Vec::new(),
            mark: None,
        };
        while let Some(row) = rows.next()? {
            is_shared = true;
            if row.get::<_, Option<i64>>(1)?.is_none() {
                record.mark = Some(StoredMark {
                    id: text(row, "lock_id").unwrap_or_default().to_owned(),
                    until_ms: time(row, 2)?,
                });
                continue;
            }
            let holder = SharedHolder::read(row)?;
            // Once the record has expired, others may take the key, so none of its holders is left.
            if live(expires_at_ms, now_ms) && live(holder.expires_at_ms, now_ms) {
                record.holders.push(holder);
            }
        }
        Ok(is_shared.then_some(record))
    }

    /// Reads the record like [`read`](Self::read), to write it afterwards. Holders from the future, because
    /// the clock was set back, get their full length again, from now on.
    pub(super) fn open(
        db: &Connection,
        id: &str,
        expires_at_ms: u64,
        now_ms: u64,
    ) -> rusqlite::Result<Option<Self>> {
        let Some(mut record) = Self::read(db, id, expires_at_ms, now_ms)? else {
            return Ok(None);
        };
        let mut is_rebased = false;
        for holder in &mut record.holders {
            if is_future(holder.acquired_at_ms, now_ms) {
                let length = holder.expires_at_ms.saturating_sub(holder.acquired_at_ms);
                renew(
                    db,
                    &record.id,
                    holder,
                    now_ms.saturating_add(length),
                    now_ms,
                )?;
                is_rebased = true;
            }
        }
        if is_rebased {
            record.write(db, now_ms)?;
        }
        Ok(Some(record))
    }

    /// Finds the record that has this holder, live or not, to write it. None if there is none.
    pub(super) fn of_holder(
        db: &Connection,
        lock_id: LockId,
        now_ms: u64,
    ) -> rusqlite::Result<Option<Self>> {
        let found = db
            .prepare_cached(include_str!("sql/record_of_holder.sql"))?
            .query_row([lock_id.as_str()], |row| {
                let id = text(row, "lock_id").unwrap_or_default();
                Ok((id.to_owned(), time(row, 2)?))
            })
            .optional()?;
        match found {
            Some((id, expires_at_ms)) => Self::open(db, &id, expires_at_ms, now_ms),
            None => Ok(None),
        }
    }

    pub(super) fn share_of(&self, holder: &SharedHolder) -> Share {
        Share {
            slot: holder.slot,
            holders: count(self.holders.len()),
        }
    }

    /// Returns the holder that expires last.
    pub(super) fn last(&self) -> Option<&SharedHolder> {
        self.holders
            .iter()
            .max_by_key(|holder| holder.expires_at_ms)
    }

    /// Returns what refuses an attempt of this kind.
    pub(super) fn obstacle(&self, access: Access, now_ms: u64) -> Option<Holder> {
        let Access::Shared { limit } = access else {
            return Some(self.last()?.as_holder(now_ms));
        };
        if let Some(mark) = self.mark.as_ref().filter(|mark| mark.is_live(now_ms)) {
            return Some(Holder {
                free_in: Duration::from_millis(mark.until_ms - now_ms),
                expires_at_ms: mark.until_ms,
                is_shared: true,
                label: None,
            });
        }
        let expiries = self.holders.iter().map(|holder| holder.expires_at_ms);
        let at_ms = admitted_at(expiries, limit)?;
        let next = self
            .holders
            .iter()
            .find(|holder| holder.expires_at_ms == at_ms)?;
        Some(next.as_holder(now_ms))
    }

    /// Whether neither a holder nor a mark is left.
    pub(super) fn is_free(&self, now_ms: u64) -> bool {
        self.holders.is_empty() && !self.is_marked(now_ms)
    }

    fn is_marked(&self, now_ms: u64) -> bool {
        self.mark.as_ref().is_some_and(|mark| mark.is_live(now_ms))
    }

    /// Returns the id of a mark that has ended.
    pub(super) fn ended_mark(&self, now_ms: u64) -> Option<&str> {
        let mark = self.mark.as_ref().filter(|mark| !mark.is_live(now_ms))?;
        Some(&mark.id)
    }

    /// Leaves the mark of a writer that this record has refused.
    pub(super) fn leave_mark(&self, db: &Connection, mark: Mark) -> rusqlite::Result<()> {
        db.prepare_cached(include_str!("sql/remove_marks.sql"))?
            .execute([&self.id])?;
        add(
            db,
            params![
                self.id,
                mark.id.as_str(),
                None::<u32>,
                stored(mark.until_ms),
                stored(mark.until_ms.saturating_sub(MARK_LEASE_MS)),
                None::<&str>,
                None::<&str>
            ],
        )
    }

    /// Removes a writer's mark, if it is still there.
    pub(super) fn unmark(
        &mut self,
        db: &Connection,
        id: LockId,
        now_ms: u64,
    ) -> rusqlite::Result<()> {
        let ended = db
            .prepare_cached(include_str!("sql/end_mark.sql"))?
            .execute([&self.id, id.as_str()])?;
        if ended > 0 {
            self.mark = None;
            self.write(db, now_ms)?;
        }
        Ok(())
    }

    /// Extends this holder's lease. Returns false if it has expired.
    pub(super) fn extend(
        &mut self,
        db: &Connection,
        lock_id: LockId,
        expires_at_ms: u64,
        now_ms: u64,
    ) -> rusqlite::Result<bool> {
        let mut holders = self.holders.iter_mut();
        let Some(holder) = holders.find(|holder| holder.lock_id == lock_id.as_str()) else {
            return Ok(false);
        };
        let acquired_at_ms = holder.acquired_at_ms.min(now_ms);
        renew(db, &self.id, holder, expires_at_ms, acquired_at_ms)?;
        self.write(db, now_ms)?;
        Ok(true)
    }

    /// Removes this holder. Returns whether it was live.
    pub(super) fn remove(
        &mut self,
        db: &Connection,
        lock_id: LockId,
        now_ms: u64,
    ) -> rusqlite::Result<bool> {
        db.prepare_cached(include_str!("sql/remove_holder.sql"))?
            .execute([&self.id, lock_id.as_str()])?;
        let before = self.holders.len();
        self.holders
            .retain(|holder| holder.lock_id != lock_id.as_str());
        self.write(db, now_ms)?;
        Ok(self.holders.len() < before)
    }

    /// Writes the record's own row after its holders have changed. Removes it if nothing is left.
    fn write(&self, db: &Connection, now_ms: u64) -> rusqlite::Result<()> {
        if self.is_free(now_ms) {
            db.prepare_cached(include_str!("sql/remove.sql"))?
                .query_row([&self.id], |_| Ok(()))
                .optional()?;
            return remove_holders(db, &self.id);
        }
        let expires_at_ms = self.last().map_or(EXPIRED, |holder| holder.expires_at_ms);
        db.prepare_cached(include_str!("sql/renew_record.sql"))?
            .execute(params![self.id, stored(expires_at_ms), stored(now_ms)])?;
        Ok(())
    }
}

/// Adds a holder to the record, or to a new one. The caller has counted the fence.
pub(super) fn grant(
    db: &Connection,
    key: &str,
    record: Option<SharedRecord>,
    request: &AcquireRequest,
    fence: Fence,
    now_ms: u64,
) -> rusqlite::Result<Share> {
    let record = match record {
        Some(record) if !record.holders.is_empty() => {
            db.prepare_cached(include_str!("sql/remove_expired_holders.sql"))?
                .execute(params![record.id, live_after(now_ms)])?;
            record
        }
        left => {
            if let Some(left) = left {
                remove_holders(db, &left.id)?;
            }
            SharedRecord {
                id: LockId::generate().as_str().to_owned(),
                holders: Vec::new(),
                mark: None,
            }
        }
    };
    let slot = smallest_free_slot(record.holders.iter().map(|holder| holder.slot));
    let expires_at_ms = now_ms.saturating_add(request.ttl.ms());
    let last_ms = record.last().map_or(0, |holder| holder.expires_at_ms);
    let fence = fence.to_string();
    db.prepare_cached(include_str!("sql/acquire.sql"))?
        .execute(params![
            key,
            record.id,
            stored(expires_at_ms.max(last_ms)),
            stored(now_ms),
            fence,
            request.key.as_str()
        ])?;
    add(
        db,
        params![
            record.id,
            request.lock_id.as_str(),
            slot,
            stored(expires_at_ms),
            stored(now_ms),
            fence,
            request.label.as_ref().map(HolderLabel::as_str)
        ],
    )?;
    Ok(Share {
        slot,
        holders: count(record.holders.len() + 1),
    })
}

/// Removes all holders of a record, and its mark.
pub(super) fn remove_holders(db: &Connection, record_id: &str) -> rusqlite::Result<()> {
    db.prepare_cached(include_str!("sql/remove_holders.sql"))?
        .execute([record_id])
        .map(drop)
}

fn add(db: &Connection, columns: &[&dyn rusqlite::ToSql]) -> rusqlite::Result<()> {
    db.prepare_cached(include_str!("sql/add_holder.sql"))?
        .execute(columns)
        .map(drop)
}

fn renew(
    db: &Connection,
    record_id: &str,
    holder: &mut SharedHolder,
    expires_at_ms: u64,
    acquired_at_ms: u64,
) -> rusqlite::Result<()> {
    db.prepare_cached(include_str!("sql/renew_holder.sql"))?
        .execute(params![
            record_id,
            holder.lock_id,
            stored(expires_at_ms),
            stored(acquired_at_ms)
        ])?;
    holder.expires_at_ms = expires_at_ms;
    holder.acquired_at_ms = acquired_at_ms;
    Ok(())
}

fn count(holders: usize) -> u32 {
    u32::try_from(holders).unwrap_or(u32::MAX)
}
