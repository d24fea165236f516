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
    /// The grants, in the order in which they were made.
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

#[cfg(test)]
mod tests {
    use firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
    use firestore::gcloud_sdk::google::firestore::v1::{ArrayValue, Document, Value};
    use proptest::prelude::*;
    use prost_types::Timestamp;

    use super::*;
    use crate::backend::firestore::format::lock_document;
    use crate::error::ErrorCode;
    use crate::lock::Key;
    use crate::lock::share::UNLIMITED;

    /// The documents of one key.
    struct Store {
        lock: Snapshot,
        counter: u64,
    }

    impl Store {
        fn new() -> Self {
            Self {
                lock: Snapshot::missing("locks/k".to_owned()),
                counter: 0,
            }
        }

        /// Makes a change as a transaction does.
        fn change<T>(&mut self, now_ms: u64, change: impl FnOnce(&mut Holding) -> T) -> T {
            let mut holding = Holding::read(&self.lock, Ok(self.counter), now_ms);
            let outcome = change(&mut holding);
            let (grants, written) = holding.into_written();
            self.counter = grants
                .last()
                .map_or(self.counter, |last| last.fence.value());
            let name = self.lock.name.clone();
            match written {
                Some(Written::Exclusive(lock)) => self.put(lock_document(name, &lock)),
                Some(Written::Shared(record)) => self.put(record.to_document(name)),
                Some(Written::Nothing) => self.lock = Snapshot::missing(name),
                None => {}
            }
            outcome
        }

        fn put(&mut self, document: Document) {
            self.lock = Snapshot::found(Document {
                update_time: Some(Timestamp::default()),
                ..document
            });
        }

        fn acquire(&mut self, now_ms: u64, request: &AcquireRequest) -> AcquireOutcome {
            let acquired = self.change(now_ms, |holding| holding.acquire(request));
            acquired.unwrap()
        }

        fn share(&mut self, now_ms: u64, limit: u32, ttl_ms: u32) -> Result<LockId, Holder> {
            let request = request(Access::Shared { limit }, ttl_ms);
            match self.acquire(now_ms, &request) {
                AcquireOutcome::Acquired { .. } => Ok(request.lock_id),
                AcquireOutcome::Locked(holder) => Err(holder.unwrap()),
            }
        }

        fn record(&self) -> SharedRecord {
            self.lock.shared().unwrap()
        }

        /// Stores the shared record again, with changed fields.
        fn damage(&mut self, change: impl FnOnce(&mut Document)) {
            let mut document = self.record().to_document(self.lock.name.clone());
            change(&mut document);
            self.put(document);
        }
    }

    fn ttl(ms: u32) -> Ttl {
        Ttl::from_number(f64::from(ms)).unwrap()
    }

    fn request(access: Access, ttl_ms: u32) -> AcquireRequest {
        AcquireRequest {
            key: Key::new("k").unwrap(),
            lock_id: LockId::generate(),
            ttl: ttl(ttl_ms),
            label: None,
            caller: 0,
            access,
            mark: None,
        }
    }

    fn value(value: ValueType) -> Value {
        Value {
            value_type: Some(value),
        }
    }

    #[test]
    fn a_refused_attempt_learns_when_enough_holders_have_expired() {
        let mut store = Store::new();
        for ttl_ms in [30_000, 10_000, 20_000] {
            store.share(0, UNLIMITED, ttl_ms).unwrap();
        }
        let mut until = |limit| store.share(0, limit, 1).unwrap_err().expires_at_ms;
        assert_eq!([until(3), until(2), until(1)], [10_000, 20_000, 30_000]);
        let refused = store.acquire(0, &request(Access::Exclusive, 1));
        let AcquireOutcome::Locked(Some(holder)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(holder.expires_at_ms, 30_000);
        assert_eq!(holder.free_in, Duration::from_millis(31_000));
        assert!(holder.is_shared);
        // At that moment, and not before, the attempt succeeds.
        assert!(store.share(10_999, 3, 1).is_err());
        assert!(store.share(11_000, 3, 1).is_ok());
    }

    #[test]
    fn a_mark_is_renewed_before_it_ends_and_not_at_each_attempt() {
        let mut store = Store::new();
        store.share(0, UNLIMITED, 60_000).unwrap();
        let mut writer = request(Access::Exclusive, 1);
        writer.mark = Some(LockId::generate());
        let mut until_after = |now_ms, request: &AcquireRequest| {
            store.acquire(now_ms, request);
            store.record().mark.map(|mark| mark.until_ms)
        };
        assert_eq!(until_after(0, &writer), Some(2_000));
        assert_eq!(until_after(600, &writer), Some(2_000));
        assert_eq!(until_after(700, &writer), Some(2_700));
        let mut other = writer.clone();
        other.mark = Some(LockId::generate());
        assert_eq!(until_after(701, &other), Some(2_701));
        // An attempt of somebody who does not wait leaves the mark alone.
        assert_eq!(
            until_after(2_000, &request(Access::Exclusive, 1)),
            Some(2_701)
        );
        assert!(store.share(2_700, UNLIMITED, 1).is_err());
        assert!(store.share(2_701, UNLIMITED, 1).is_ok());
        assert_eq!(store.record().mark, None);
    }

    #[test]
    fn an_exhausted_counter_grants_nothing() {
        let mut store = Store::new();
        store.share(0, UNLIMITED, 60_000).unwrap();
        store.counter = crate::lock::fence::FENCE_MAX;
        let shared = request(Access::Shared { limit: 9 }, 1);
        let refused = store.change(0, |holding| holding.acquire(&shared));
        assert_eq!(refused.unwrap_err().code, ErrorCode::Internal);
        assert_eq!(store.record().holders.len(), 1);
    }

    #[test]
    fn a_record_that_cannot_be_read_locks_the_key_until_it_expires() {
        let text = || value(ValueType::StringValue("x".to_owned()));
        let broken = value(ValueType::ArrayValue(ArrayValue {
            values: vec![text()],
        }));
        for (field, damage) in [
            ("holders", Some(text())),
            ("holders", Some(broken)),
            ("lockId", Some(text())),
            ("lockId", None),
            ("fence", Some(text())),
            ("key", None),
        ] {
            let mut store = Store::new();
            let held = store.share(0, UNLIMITED, 10_000).unwrap();
            store.damage(|document| {
                document.fields.remove(field);
                document
                    .fields
                    .extend(damage.map(|damage| (field.to_owned(), damage)));
            });
            assert!(store.lock.is_live(10_999), "{field}");
            assert_eq!(
                store.lock.locks(0).err().map(|error| error.code),
                Some(ErrorCode::Internal)
            );
            assert!(!store.lock.is_owned_by(held));
            assert!(store.share(10_999, UNLIMITED, 1).is_err());
            let released = store.change(0, |holding| holding.release(held));
            assert_eq!(released, Err(Miss::NotFound));
            assert!(store.share(11_000, UNLIMITED, 1).is_ok());
        }
    }

    #[test]
    fn an_unreadable_mark_keeps_nobody_out() {
        let mut store = Store::new();
        store.share(0, UNLIMITED, 10_000).unwrap();
        let damage = value(ValueType::BooleanValue(true));
        store.damage(|document| drop(document.fields.insert("mark".to_owned(), damage)));
        assert!(store.share(0, UNLIMITED, 1).is_ok());
    }

    #[test]
    fn nobody_outlasts_the_document() {
        let mut store = Store::new();
        let held = store.share(0, UNLIMITED, 60_000).unwrap();
        let sooner = value(ValueType::IntegerValue(10_000));
        store.damage(|document| drop(document.fields.insert("expiresAtMs".to_owned(), sooner)));
        let extended = store.change(11_000, |holding| holding.extend(held, ttl(1)));
        assert_eq!(extended, Err(Miss::Expired));
        let exclusive = store.acquire(11_000, &request(Access::Exclusive, 1));
        assert!(matches!(exclusive, AcquireOutcome::Acquired { .. }));
    }

    proptest! {
        /// Against a model that knows who holds what until when.
        #[test]
        fn holders_are_admitted_and_end_one_by_one(
            steps in prop::collection::vec((0u8..6, 0usize..6, 1u32..5, 0u64..900), 1..150),
        ) {
            let mut store = Store::new();
            // A record without holders has expired by this time.
            let mut now_ms = 1_000_000;
            let mut fence = 0;
            // lockId, end, and whether it is shared.
            let mut held: Vec<(LockId, u64, bool)> = Vec::new();
            let waiter = LockId::generate();
            for (what, which, limit, wait_ms) in steps {
                now_ms += wait_ms;
                held.retain(|(_, end_ms, _)| *end_ms > now_ms);
                let before = store.lock.shared();
                let is_marked = before.as_ref().and_then(|record| record.mark)
                    .is_some_and(|mark| mark.is_live(now_ms));
                let target = held.get(which).copied().filter(|(_, _, is_shared)| *is_shared);
                let is_exclusive = held.iter().any(|(_, _, is_shared)| !is_shared);
                let mut has_left = false;
                match (what, target) {
                    (0..=2, _) => {
                        let access = match what {
                            0 => Access::Exclusive,
                            _ => Access::Shared { limit },
                        };
                        let mut request = request(access, 500);
                        request.mark = (what == 0).then_some(waiter);
                        let outcome = store.acquire(now_ms, &request);
                        let admitted = !is_exclusive
                            && access.admits(u32::try_from(held.len()).unwrap())
                            && !(access.is_shared() && is_marked);
                        if let AcquireOutcome::Acquired { fence: granted, share, .. } = outcome {
                            prop_assert!(admitted);
                            prop_assert!(granted.value() > fence);
                            fence = granted.value();
                            held.push((request.lock_id, now_ms + 1500, share.is_some()));
                            prop_assert_eq!(share.map_or(1, |share| share.holders) as usize, held.len());
                        } else {
                            prop_assert!(!admitted);
                        }
                    }
                    (3, Some((id, ..))) => {
                        prop_assert_eq!(store.change(now_ms, |holding| holding.release(id)), Ok(()));
                        held.retain(|(other, ..)| *other != id);
                        has_left = true;
                    }
                    (4, Some((id, ..))) => {
                        let extended = store.change(now_ms, |holding| holding.extend(id, ttl(500)));
                        prop_assert_eq!(extended, Ok(now_ms + 500));
                        for entry in held.iter_mut().filter(|(other, ..)| *other == id) {
                            entry.1 = now_ms + 1500;
                        }
                    }
                    (5, _) => {
                        let had_mark = before.as_ref().is_some_and(|record| record.mark.is_some());
                        store.change(now_ms, |holding| holding.unmark(waiter));
                        has_left = had_mark;
                    }
                    _ => {}
                }
                prop_assert_eq!(store.lock.is_live(now_ms), !held.is_empty());
                let mut live: Vec<LockId> = store.lock.locks(now_ms).unwrap()
                    .into_iter().map(|lock| lock.lock_id).collect();
                let mut expected: Vec<LockId> = held.iter().map(|(id, ..)| *id).collect();
                live.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(&live, &expected);
                let Some(after) = store.lock.shared() else {
                    continue;
                };
                prop_assert!(!live.contains(&after.lock_id));
                let slots: std::collections::HashSet<u32> =
                    after.live_holders(now_ms).map(|holder| holder.slot).collect();
                prop_assert_eq!(slots.len(), live.len());
                if let Some(before) = before {
                    has_left |= before.holders.iter().any(|holder| !after.holders.iter()
                        .any(|other| other.lock_id == holder.lock_id));
                    prop_assert_eq!(before.lock_id != after.lock_id, has_left);
                }
            }
        }
    }
}
