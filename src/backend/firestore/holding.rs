//! Who holds a key, as read from its documents, and the rules by which changes are applied to it before
//! they are written.

use std::time::Duration;

use super::format::{MAX_HOLDERS, SharedHolder, SharedRecord, Snapshot};
use crate::backend::{AcquireOutcome, AcquireRequest, Holder, LockRecord, Miss};
use crate::error::Result;
use crate::lock::share::{MARK_LEASE_MS, Mark, admitted_at, smallest_free_slot};
use crate::lock::time::TIME_TOLERANCE_MS;
use crate::lock::{Access, Fence, LockId, Share, Ttl};

/// A waiter's mark is not written again while it lasts longer than this. An attempt that a notification
/// caused then costs no write, and the next attempt that is due by time still renews the mark in time.
const MARK_LASTS_MS: u64 = MARK_LEASE_MS * 2 / 3;

pub(super) struct Holding {
    now_ms: u64,
    state: State,
    /// The last fence, or why it is not known.
    counter: Result<u64>,
    /// What was granted, in this order.
    grants: Vec<Grant>,
    is_changed: bool,
}

enum State {
    Free,
    /// An exclusive lock, or a document that cannot be read, refuses every attempt.
    Taken(Holder),
    /// This lock was granted just now.
    Granted(LockRecord),
    Shared(SharedRecord),
}

/// A lock that a change granted.
pub(super) struct Grant {
    pub(super) key: String,
    pub(super) lock_id: LockId,
    pub(super) fence: Fence,
    pub(super) expires_at_ms: u64,
    pub(super) is_shared: bool,
}

/// What the lock document becomes.
pub(super) enum Written {
    Exclusive(LockRecord),
    Shared(SharedRecord),
    /// Nobody holds the key, and nobody waits for it with a mark.
    Nothing,
}

impl Holding {
    pub(super) fn read(lock: &Snapshot, counter: Result<u64>, now_ms: u64) -> Self {
        let state = match (lock.shared(), lock.obstacle(now_ms)) {
            (Some(record), _) => State::Shared(record),
            (None, Some(holder)) => State::Taken(holder),
            (None, None) => State::Free,
        };
        Self {
            now_ms,
            state,
            counter,
            grants: Vec::new(),
            is_changed: false,
        }
    }

    pub(super) fn acquire(&mut self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        if let Some(holder) = self.obstacle(request.access) {
            self.leave_mark(request);
            return Ok(AcquireOutcome::Locked(Some(holder)));
        }
        let fence = Fence::after(self.counter.clone()?)?;
        let expires_at_ms = self.now_ms.saturating_add(request.ttl.ms());
        let share = match request.access {
            Access::Exclusive => {
                self.state = State::Granted(LockRecord {
                    key: request.key.as_str().to_owned(),
                    lock_id: request.lock_id,
                    expires_at_ms,
                    acquired_at_ms: self.now_ms,
                    fence,
                    label: request.label.clone(),
                    share: None,
                });
                None
            }
            Access::Shared { .. } => Some(self.share(request, fence, expires_at_ms)),
        };
        self.counter = Ok(fence.value());
        self.is_changed = true;
        self.grants.push(Grant {
            key: request.key.as_str().to_owned(),
            lock_id: request.lock_id,
            fence,
            expires_at_ms,
            is_shared: share.is_some(),
        });
        Ok(AcquireOutcome::Acquired {
            fence,
            expires_at_ms,
            share,
        })
    }

    /// Returns what refuses the attempt. Of several holders, the one for which it has to wait.
    fn obstacle(&self, access: Access) -> Option<Holder> {
        let record = match &self.state {
            State::Free => return None,
            State::Taken(holder) => return Some(holder.clone()),
            State::Granted(lock) => return Some(self.holder_of(lock)),
            State::Shared(record) => record,
        };
        let live = record.live_holders(self.now_ms);
        let Access::Shared { limit } = access else {
            let last = live.max_by_key(|holder| holder.expires_at_ms)?;
            return Some(self.sharer(last));
        };
        if let Some(mark) = record.mark.filter(|mark| mark.is_live(self.now_ms)) {
            return Some(Holder {
                free_in: Duration::from_millis(mark.until_ms - self.now_ms),
                expires_at_ms: mark.until_ms,
                is_shared: true,
                label: None,
            });
        }
        let expiries = live.clone().map(|holder| holder.expires_at_ms);
        let at_ms = admitted_at(expiries, limit.min(MAX_HOLDERS))?;
        let next = live.clone().find(|holder| holder.expires_at_ms == at_ms)?;
        Some(self.sharer(next))
    }

    fn holder_of(&self, lock: &LockRecord) -> Holder {
        Holder {
            free_in: self.free_in(lock.expires_at_ms),
            expires_at_ms: lock.expires_at_ms,
            is_shared: false,
            label: lock.label.clone(),
        }
    }

    fn sharer(&self, holder: &SharedHolder) -> Holder {
        Holder {
            free_in: self.free_in(holder.expires_at_ms),
            expires_at_ms: holder.expires_at_ms,
            is_shared: true,
            label: holder.label.clone(),
        }
    }

    fn free_in(&self, expires_at_ms: u64) -> Duration {
        let free_at_ms = expires_at_ms.saturating_add(TIME_TOLERANCE_MS);
        Duration::from_millis(free_at_ms.saturating_sub(self.now_ms))
    }

    /// Adds a holder to those that share the key.
    fn share(&mut self, request: &AcquireRequest, fence: Fence, expires_at_ms: u64) -> Share {
        let now_ms = self.now_ms;
        let mut record = match std::mem::replace(&mut self.state, State::Free) {
            State::Shared(record) => record,
            _ => SharedRecord {
                key: request.key.as_str().to_owned(),
                lock_id: LockId::generate(),
                acquired_at_ms: now_ms,
                fence,
                holders: Vec::new(),
                mark: None,
            },
        };
        let taken = record.live_holders(now_ms).map(|holder| holder.slot);
        let holders = u32::try_from(taken.clone().count() + 1).unwrap_or(u32::MAX);
        let slot = smallest_free_slot(taken);
        record.acquired_at_ms = now_ms;
        record.fence = fence;
        record.holders.push(SharedHolder {
            lock_id: request.lock_id,
            expires_at_ms,
            acquired_at_ms: now_ms,
            fence,
            slot,
            label: request.label.clone(),
        });
        self.state = State::Shared(record);
        Share { slot, holders }
    }

    /// Leaves or renews the mark of a waiter that a shared key has refused.
    fn leave_mark(&mut self, request: &AcquireRequest) {
        let (State::Shared(record), Some(id)) = (&mut self.state, request.mark) else {
            return;
        };
        let lasts = |mark: Mark| mark.id == id && mark.is_live(self.now_ms + MARK_LASTS_MS);
        if !record.mark.is_some_and(lasts) {
            record.mark = Some(Mark::new(id, self.now_ms));
            self.is_changed = true;
        }
    }

    pub(super) fn unmark(&mut self, id: LockId) {
        if let State::Shared(record) = &mut self.state
            && record.mark.is_some_and(|mark| mark.id == id)
        {
            record.mark = None;
            record.lock_id = LockId::generate();
            self.is_changed = true;
        }
    }

    /// Releases the share of one holder.
    pub(super) fn release(&mut self, lock_id: LockId) -> Result<(), Miss> {
        let record = self.record_of(lock_id)?;
        record.holders.retain(|holder| holder.lock_id != lock_id);
        record.lock_id = LockId::generate();
        self.is_changed = true;
        Ok(())
    }

    /// Extends the share of one holder. Returns its new expiry.
    pub(super) fn extend(&mut self, lock_id: LockId, ttl: Ttl) -> Result<u64, Miss> {
        let expires_at_ms = self.now_ms.saturating_add(ttl.ms());
        let record = self.record_of(lock_id)?;
        for holder in &mut record.holders {
            if holder.lock_id == lock_id {
                holder.expires_at_ms = expires_at_ms;
            }
        }
        self.is_changed = true;
        Ok(expires_at_ms)
    }

    /// Returns the record in which this is a live holder.
    fn record_of(&mut self, lock_id: LockId) -> Result<&mut SharedRecord, Miss> {
        let State::Shared(record) = &mut self.state else {
            return Err(Miss::NotFound);
        };
        let mut holders = record.holders.iter();
        match holders.find(|holder| holder.lock_id == lock_id) {
            Some(holder) if holder.is_live(self.now_ms) => Ok(record),
            Some(_) => Err(Miss::Expired),
            None => Err(Miss::NotFound),
        }
    }

    /// Returns what was granted, in this order, and what to write. `None` if nothing has changed.
    pub(super) fn into_written(self) -> (Vec<Grant>, Option<Written>) {
        let written = match self.state {
            State::Free | State::Taken(_) => None,
            State::Granted(lock) => Some(Written::Exclusive(lock)),
            State::Shared(record) if self.is_changed => Some(written(record, self.now_ms)),
            State::Shared(_) => None,
        };
        (self.grants, written)
    }
}

/// Returns what a changed record becomes: without holders that have expired.
fn written(mut record: SharedRecord, now_ms: u64) -> Written {
    let before = record.holders.len();
    record.holders.retain(|holder| holder.is_live(now_ms));
    if record.holders.len() < before {
        record.lock_id = LockId::generate();
    }
    record.mark = record.mark.filter(|mark| mark.is_live(now_ms));
    if record.holders.is_empty() && record.mark.is_none() {
        Written::Nothing
    } else {
        Written::Shared(record)
    }
}
