//! The tables of the memory backend. Time is an argument, so expiry can be tested without waiting.

use std::collections::BTreeSet;
use std::time::Duration;

use super::watch::WatchedKeys;
use crate::backend::{
    AcquireOutcome, AcquireRequest, ExtendOutcome, Holder, LockRecord, Miss, Page, ReleaseOutcome,
};
use crate::error::Result;
use crate::lock::share::{Mark, admitted_at, smallest_free_slot};
use crate::lock::time::{TIME_TOLERANCE_MS, is_live};
use crate::lock::{Access, Fence, HolderLabel, Key, LockId, Share, Ttl};
use crate::map::FastMap;

/// How many expired locks an acquire removes at most. This is more than it adds, so they cannot pile up,
/// and few enough that no single call is slow.
const MAX_SWEEP: usize = 4;

/// A table with a capacity up to this is never shrunk.
const MIN_SHRINK_CAPACITY: usize = 1024;

struct Held {
    key: Key,
    expires_at_ms: u64,
    acquired_at_ms: u64,
    fence: Fence,
    /// None if the lock is exclusive.
    slot: Option<u32>,
    label: Option<HolderLabel>,
}

impl Held {
    fn is_live(&self, now_ms: u64) -> bool {
        is_live(self.expires_at_ms, now_ms, TIME_TOLERANCE_MS)
    }

    fn as_holder(&self, now_ms: u64) -> Holder {
        let free_at_ms = self.expires_at_ms.saturating_add(TIME_TOLERANCE_MS);
        Holder {
            free_in: Duration::from_millis(free_at_ms.saturating_sub(now_ms)),
            expires_at_ms: self.expires_at_ms,
            is_shared: self.slot.is_some(),
            label: self.label.clone(),
        }
    }
}

/// A key: its last fence, which is kept for ever, and who holds it.
#[derive(Default)]
struct Slot {
    last_fence: u64,
    holding: Holding,
}

#[derive(Default)]
enum Holding {
    #[default]
    Free,
    Exclusive(LockId),
    Shared(Box<Sharing>),
}

#[derive(Default)]
struct Sharing {
    holders: Vec<LockId>,
    mark: Option<Mark>,
}

impl Holding {
    fn holders(&self) -> &[LockId] {
        match self {
            Self::Free => &[],
            Self::Exclusive(holder) => std::slice::from_ref(holder),
            Self::Shared(sharing) => &sharing.holders,
        }
    }
}

#[derive(Default)]
pub(super) struct Store {
    slots: FastMap<Key, Slot>,
    held: FastMap<LockId, Held>,
    by_expiry: BTreeSet<(u64, LockId)>,
    pub(super) watches: WatchedKeys,
}

impl Store {
    pub(super) fn acquire(
        &mut self,
        request: &AcquireRequest,
        now_ms: u64,
    ) -> Result<AcquireOutcome> {
        self.sweep(now_ms);
        self.remove_expired(&request.key, now_ms);
        if let Some(holder) = self.obstacle(request, now_ms) {
            self.mark(request, now_ms);
            return Ok(AcquireOutcome::Locked(Some(holder)));
        }
        let slot = self.slots.entry(request.key.clone()).or_default();
        let fence = Fence::after(slot.last_fence)?;
        slot.last_fence = fence.value();
        let share = match request.access {
            Access::Exclusive => {
                slot.holding = Holding::Exclusive(request.lock_id);
                None
            }
            Access::Shared { .. } => Some(share(&mut slot.holding, request.lock_id, &self.held)),
        };
        let expires_at_ms = now_ms.saturating_add(request.ttl.ms());
        self.held.insert(
            request.lock_id,
            Held {
                key: request.key.clone(),
                expires_at_ms,
                acquired_at_ms: now_ms,
                fence,
                slot: share.map(|share| share.slot),
                label: request.label.clone(),
            },
        );
        self.by_expiry.insert((expires_at_ms, request.lock_id));
        Ok(AcquireOutcome::Acquired {
            fence,
            expires_at_ms,
            share,
        })
    }

    /// Returns what refuses the request. All holders of its key are live.
    fn obstacle(&self, request: &AcquireRequest, now_ms: u64) -> Option<Holder> {
        let holding = &self.slots.get(&request.key)?.holding;
        let holders = holding.holders().iter();
        let mut held = holders.filter_map(|holder| self.held.get(holder));
        let (Holding::Shared(sharing), Access::Shared { limit }) = (holding, request.access) else {
            // One of the two is exclusive: the last holder is in the way.
            let last = held.max_by_key(|held| held.expires_at_ms)?;
            return Some(last.as_holder(now_ms));
        };
        if let Some(mark) = sharing.mark.filter(|mark| mark.is_live(now_ms)) {
            return Some(Holder {
                free_in: Duration::from_millis(mark.until_ms - now_ms),
                expires_at_ms: mark.until_ms,
                is_shared: true,
                label: None,
            });
        }
        let at_ms = admitted_at(held.clone().map(|held| held.expires_at_ms), limit)?;
        let next = held.find(|held| held.expires_at_ms == at_ms)?;
        Some(next.as_holder(now_ms))
    }

    /// Leaves the mark of a waiter that a shared key has refused.
    fn mark(&mut self, request: &AcquireRequest, now_ms: u64) {
        if let Some(id) = request.mark
            && let Some(slot) = self.slots.get_mut(&request.key)
            && let Holding::Shared(sharing) = &mut slot.holding
        {
            sharing.mark = Some(Mark::new(id, now_ms));
        }
    }

    pub(super) fn unmark(&mut self, key: &Key, mark: LockId) {
        if let Some(slot) = self.slots.get_mut(key)
            && let Holding::Shared(sharing) = &mut slot.holding
            && sharing.mark.is_some_and(|left| left.id == mark)
        {
            sharing.mark = None;
            if sharing.holders.is_empty() {
                slot.holding = Holding::Free;
            }
            self.watches.freed(key);
        }
    }

    pub(super) fn release(&mut self, lock_id: LockId, now_ms: u64) -> ReleaseOutcome {
        let live = self.live(lock_id, now_ms).is_some();
        match (self.remove(lock_id), live) {
            (false, _) => ReleaseOutcome::Missed(Miss::NotFound),
            (true, false) => ReleaseOutcome::Missed(Miss::Expired),
            (true, true) => ReleaseOutcome::Released,
        }
    }

    pub(super) fn extend(&mut self, lock_id: LockId, ttl: Ttl, now_ms: u64) -> ExtendOutcome {
        let live = self.live(lock_id, now_ms).is_some();
        let Some(held) = self.held.get_mut(&lock_id) else {
            return ExtendOutcome::Missed(Miss::NotFound);
        };
        if !live {
            self.remove(lock_id);
            return ExtendOutcome::Missed(Miss::Expired);
        }
        let expires_at_ms = now_ms.saturating_add(ttl.ms());
        self.by_expiry.remove(&(held.expires_at_ms, lock_id));
        self.by_expiry.insert((expires_at_ms, lock_id));
        held.expires_at_ms = expires_at_ms;
        ExtendOutcome::Extended { expires_at_ms }
    }

    /// Returns the live lock of this key, and of several the one that expires last.
    pub(super) fn find_key(&self, key: &Key, now_ms: u64) -> Option<LockRecord> {
        let holders = self.slots.get(key)?.holding.holders().iter();
        let live = holders.filter_map(|id| Some((*id, self.live(*id, now_ms)?)));
        let (last, _) = live.max_by_key(|(_, held)| held.expires_at_ms)?;
        self.find_id(last, now_ms)
    }

    pub(super) fn find_id(&self, lock_id: LockId, now_ms: u64) -> Option<LockRecord> {
        let held = self.live(lock_id, now_ms)?;
        Some(LockRecord {
            key: held.key.as_str().to_owned(),
            lock_id,
            expires_at_ms: held.expires_at_ms,
            acquired_at_ms: held.acquired_at_ms,
            fence: held.fence,
            label: held.label.clone(),
            share: held.slot.map(|slot| Share {
                slot,
                holders: self.live_holders(&held.key, now_ms),
            }),
        })
    }

    fn live_holders(&self, key: &Key, now_ms: u64) -> u32 {
        let Some(slot) = self.slots.get(key) else {
            return 0;
        };
        let holders = slot.holding.holders().iter();
        let live = holders.filter(|holder| self.live(**holder, now_ms).is_some());
        u32::try_from(live.count()).unwrap_or(u32::MAX)
    }

    /// Lists locks in the order of their keys. It looks at every lock, because keeping them in order would
    /// make each acquire slower. All holders of a key are on one page.
    pub(super) fn list(&self, after: Option<&str>, limit: usize, now_ms: u64) -> Page {
        let mut found: Vec<(&str, LockId)> = self
            .held
            .iter()
            .map(|(lock_id, held)| (held.key.as_str(), *lock_id))
            .filter(|(key, _)| after.is_none_or(|after| *key > after))
            .collect();
        let mut next = None;
        let limit = limit.max(1);
        if found.len() > limit {
            let (_, &mut (last, _), rest) = found.select_nth_unstable(limit - 1);
            if rest.iter().any(|(key, _)| *key > last) {
                next = Some(last.to_owned());
            }
            found.retain(|(key, _)| *key <= last);
        }
        found.sort_unstable();
        Page {
            next,
            locks: found
                .into_iter()
                .filter_map(|(_, lock_id)| self.find_id(lock_id, now_ms))
                .collect(),
        }
    }

    pub(super) fn force_release(&mut self, key: &Key, now_ms: u64) -> bool {
        let Some(slot) = self.slots.get_mut(key) else {
            return false;
        };
        if let Holding::Shared(sharing) = &mut slot.holding {
            sharing.mark = None;
        }
        let holders = slot.holding.holders().to_vec();
        let released = holders
            .into_iter()
            .map(|holder| self.release(holder, now_ms) == ReleaseOutcome::Released);
        released.fold(false, |any, released| any | released)
    }

    fn live(&self, lock_id: LockId, now_ms: u64) -> Option<&Held> {
        self.held.get(&lock_id).filter(|held| held.is_live(now_ms))
    }

    fn remove_expired(&mut self, key: &Key, now_ms: u64) {
        let Some(slot) = self.slots.get(key) else {
            return;
        };
        let is_expired = |holder: &&LockId| self.live(**holder, now_ms).is_none();
        let holders = slot.holding.holders().iter();
        for holder in holders.filter(is_expired).copied().collect::<Vec<_>>() {
            self.remove(holder);
        }
    }

    fn remove(&mut self, lock_id: LockId) -> bool {
        let Some(held) = self.held.remove(&lock_id) else {
            return false;
        };
        // Without this the table would keep its size after a burst of locks.
        if self.held.capacity() > MIN_SHRINK_CAPACITY && self.held.len() < self.held.capacity() / 8
        {
            self.held.shrink_to(2 * self.held.len());
        }
        self.by_expiry.remove(&(held.expires_at_ms, lock_id));
        if let Some(slot) = self.slots.get_mut(&held.key) {
            let is_free = match &mut slot.holding {
                Holding::Shared(sharing) => {
                    sharing.holders.retain(|holder| *holder != lock_id);
                    sharing.holders.is_empty() && sharing.mark.is_none()
                }
                Holding::Exclusive(_) | Holding::Free => true,
            };
            if is_free {
                slot.holding = Holding::Free;
            }
        }
        self.watches.freed(&held.key);
        true
    }

    fn sweep(&mut self, now_ms: u64) {
        for _ in 0..MAX_SWEEP {
            match self.by_expiry.first() {
                Some(&(expires_at_ms, lock_id))
                    if !is_live(expires_at_ms, now_ms, TIME_TOLERANCE_MS) =>
                {
                    self.remove(lock_id)
                }
                _ => return,
            };
        }
    }
}

/// Adds a holder to those that share the key.
fn share(holding: &mut Holding, lock_id: LockId, held: &FastMap<LockId, Held>) -> Share {
    if !matches!(holding, Holding::Shared(_)) {
        *holding = Holding::Shared(Box::default());
    }
    let mut taken = Vec::new();
    if let Holding::Shared(sharing) = holding {
        taken.extend(sharing.holders.iter().filter_map(|id| held.get(id)?.slot));
        sharing.holders.push(lock_id);
    }
    Share {
        holders: u32::try_from(taken.len() + 1).unwrap_or(u32::MAX),
        slot: smallest_free_slot(taken.into_iter()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ttl(ms: u32) -> Ttl {
        Ttl::from_number(f64::from(ms)).unwrap()
    }

    fn request(key: &str, ms: u32) -> AcquireRequest {
        AcquireRequest {
            key: Key::new(key).unwrap(),
            lock_id: LockId::generate(),
            ttl: ttl(ms),
            label: None,
            caller: 0,
            access: Access::Exclusive,
            mark: None,
        }
    }

    fn fence_of(outcome: AcquireOutcome) -> Option<u64> {
        match outcome {
            AcquireOutcome::Acquired { fence, .. } => Some(fence.value()),
            AcquireOutcome::Locked(_) => None,
        }
    }

    fn locked(for_ms: u64, until_ms: u64) -> AcquireOutcome {
        AcquireOutcome::Locked(Some(Holder {
            free_in: Duration::from_millis(for_ms),
            expires_at_ms: until_ms,
            is_shared: false,
            label: None,
        }))
    }

    #[test]
    fn a_refusal_tells_when_the_lock_is_over() {
        let mut store = Store::default();
        let lock = request("k", 100);
        store.acquire(&lock, 0).unwrap();
        let refused = |store: &mut Store, now_ms| store.acquire(&request("k", 1), now_ms).unwrap();
        assert_eq!(refused(&mut store, 0), locked(1100, 100));
        assert_eq!(refused(&mut store, 600), locked(500, 100));
        store.extend(lock.lock_id, ttl(200), 600);
        assert_eq!(refused(&mut store, 600), locked(1200, 800));
        assert_eq!(fence_of(refused(&mut store, 1800)), Some(2));
    }

    #[test]
    fn expiry_tells_expired_from_not_found() {
        let mut store = Store::default();
        let lock = request("k", 100);
        store.acquire(&lock, 0).unwrap();
        assert_eq!(
            store.acquire(&request("k", 100), 1099).unwrap(),
            locked(1, 100)
        );
        assert_eq!(
            store.extend(lock.lock_id, ttl(1), 1100),
            ExtendOutcome::Missed(Miss::Expired)
        );
        assert_eq!(
            store.release(lock.lock_id, 1100),
            ReleaseOutcome::Missed(Miss::NotFound)
        );
        assert_eq!(
            fence_of(store.acquire(&request("k", 100), 1100).unwrap()),
            Some(2)
        );
    }

    #[test]
    fn lists_what_is_live_in_pages() {
        let mut store = Store::default();
        for n in (0..100u32).rev() {
            store
                .acquire(&request(&format!("k{n:02}"), 100 + n), 0)
                .unwrap();
        }
        let mut keys = Vec::new();
        let mut after = None;
        let mut pages = 0;
        // The first half has expired.
        loop {
            let page = store.list(after.as_deref(), 30, 1150);
            keys.extend(page.locks.into_iter().map(|lock| lock.key));
            pages += 1;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert!(keys.into_iter().eq((51..100).map(|n| format!("k{n}"))));
        assert_eq!(pages, 4);
        assert_eq!(store.list(None, 100, 0).locks.len(), 100);
        assert_eq!(store.list(None, 100, 0).next, None);
        assert_eq!(store.list(None, 0, 0).locks.len(), 1);
    }

    #[test]
    fn a_lock_that_is_taken_away_leaves_its_fence() {
        let mut store = Store::default();
        let lock = request("k", 100);
        assert!(!store.force_release(&lock.key, 0));
        store.acquire(&lock, 0).unwrap();
        assert!(store.force_release(&lock.key, 1099));
        assert_eq!(
            store.extend(lock.lock_id, ttl(1), 1099),
            ExtendOutcome::Missed(Miss::NotFound)
        );
        let next = request("k", 100);
        assert_eq!(fence_of(store.acquire(&next, 1099).unwrap()), Some(2));
        assert!(!store.force_release(&lock.key, 1099 + 1100));
        assert!(store.held.is_empty() && store.by_expiry.is_empty());
    }

    #[test]
    fn an_overwritten_lock_cannot_touch_its_successor() {
        let mut store = Store::default();
        let (old, new) = (request("k", 100), request("k", 100));
        store.acquire(&old, 0).unwrap();
        store.acquire(&new, 5000).unwrap();
        assert_eq!(
            store.release(old.lock_id, 5000),
            ReleaseOutcome::Missed(Miss::NotFound)
        );
        assert_eq!(store.find_key(&new.key, 5000).unwrap().lock_id, new.lock_id);
    }

    #[test]
    fn expired_locks_do_not_pile_up() {
        let mut store = Store::default();
        for now in 0..100_000u64 {
            store.acquire(&request(&format!("k{now}"), 1), now).unwrap();
        }
        assert!(store.held.len() <= 1100, "{}", store.held.len());
        assert_eq!(store.held.len(), store.by_expiry.len());
        assert_eq!(store.slots.len(), 100_000);
    }

    #[test]
    fn an_exhausted_counter_stores_nothing() {
        let mut store = Store::default();
        let lock = request("k", 100);
        store.slots.insert(
            lock.key.clone(),
            Slot {
                last_fence: crate::lock::fence::FENCE_MAX,
                holding: Holding::Free,
            },
        );
        assert!(store.acquire(&lock, 0).is_err());
        assert!(store.held.is_empty() && store.by_expiry.is_empty());
    }

    proptest! {
        /// Against a model that is just "who held what until when".
        #[test]
        fn never_two_live_holders(steps in prop::collection::vec((0u8..4, 0usize..8, 0u64..700), 1..200)) {
            let mut store = Store::default();
            let mut now = 0;
            let mut last_fence = 0;
            let mut ids: Vec<(LockId, u64)> = Vec::new();
            for (what, which, wait) in steps {
                now += wait;
                let target = ids.get(ids.len().saturating_sub(1 + which)).copied();
                let live: Vec<LockId> = ids.iter().filter(|(_, until)| *until > now).map(|(id, _)| *id).collect();
                prop_assert!(live.len() <= 1);
                match (what, target) {
                    (0 | 1, _) => {
                        let lock = request("k", 500);
                        let fence = fence_of(store.acquire(&lock, now).unwrap());
                        prop_assert_eq!(fence.is_some(), live.is_empty());
                        if let Some(fence) = fence {
                            prop_assert_eq!(fence, last_fence + 1);
                            last_fence = fence;
                            ids.push((lock.lock_id, now + 1500));
                        }
                    }
                    (2, Some((id, _))) => {
                        let released = store.release(id, now) == ReleaseOutcome::Released;
                        prop_assert_eq!(released, live.contains(&id));
                        ids.retain(|(other, _)| *other != id);
                    }
                    (_, Some((id, _))) => {
                        let extended = matches!(store.extend(id, ttl(500), now), ExtendOutcome::Extended { .. });
                        prop_assert_eq!(extended, live.contains(&id));
                        for entry in ids.iter_mut().filter(|(other, _)| extended && *other == id) {
                            entry.1 = now + 1500;
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(store.held.len(), store.by_expiry.len());
            }
        }
    }
}
