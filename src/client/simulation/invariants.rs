//! The invariants, which must hold after every step whatever goes wrong.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::faults::{OPERATION_LIMIT, SAFE_JUMP_MS};
use super::ledger::{Belief, Held, Ledger, Reserved, State, short};
use super::operations::{Kind, Operation, PROMPT};
use super::store::Store;
use crate::backend::LockRecord;
use crate::client::host::Moment;
use crate::lock::LockId;
use crate::lock::time::TIME_TOLERANCE_MS;

/// The longest time of an undo if nothing goes wrong.
const MAX_UNDO_TIME: Duration = Duration::from_secs(1);
/// The longest time until a released key is acquired by a waiter that can know about the release.
const MAX_HANDOVER_TIME: Duration = Duration::from_millis(800);
/// The longest time until a holder knows that its lock has expired.
const MAX_LOSS_DELAY: Duration = Duration::from_millis(10);

impl Ledger {
    pub(super) fn check(&self, store: &Store) {
        let now = self.world.now();
        let records: Vec<Option<LockRecord>> =
            self.keys.iter().map(|key| store.find(key)).collect();
        let mut state = self.state.lock();
        let late = state.operations.iter().find(|one| one.is_late(now));
        if let Some(late) = late.copied() {
            self.check_limit(&mut state, &late);
        }
        self.check_beliefs(&mut state, &records, now);
        self.check_reserved(&mut state, &records, now);
        for (key, record) in records.iter().enumerate() {
            match record {
                Some(record) => {
                    state.of_keys[key].free_since = None;
                    state.of_keys[key].freed_by = None;
                    self.check_owned(&mut state, key, record.lock_id, now);
                }
                None => self.check_wanted(&mut state, key, now),
            }
        }
    }

    /// Whether the lock may have been taken away without its holder's knowledge.
    pub(super) fn is_taken_away(&self, state: &State, belief: &Belief) -> bool {
        self.faults.wild_clock || state.taken_away.contains(&belief.lock_id)
    }

    pub(super) fn check_limit(&self, state: &mut State, operation: &Operation) {
        if operation.is_late(self.world.now()) {
            self.violate(state, || format!("it took too long: {operation:?}"));
        }
    }

    /// Nobody acquires a lock after cancelling, or before callers that came earlier.
    pub(super) fn check_turn(&self, state: &mut State, granted: &Operation) {
        let id = granted.id;
        if granted.cancelled {
            self.violate(state, || format!("{id} was cancelled and got the lock"));
        }
        let now = self.world.now();
        let surely_waits = self.faults.longest_operation() + PROMPT;
        let is_overtaken = |other: &&Operation| granted.overtakes(other, surely_waits, now);
        if let Some(other) = state.operations.iter().find(is_overtaken) {
            let other = other.id;
            self.violate(state, || format!("{id} was served before {other}"));
        }
    }

    pub(super) fn check_fence(&self, state: &mut State, belief: &Belief) {
        let is_last = !self.is_taken_away(state, belief) && belief.is_held();
        let fence = belief.fence.value();
        let of_key = &mut state.of_keys[belief.key];
        let is_behind = is_last && fence <= of_key.last_fence;
        of_key.last_fence = of_key.last_fence.max(fence);
        if !of_key.fences.insert(fence) || is_behind {
            self.violate(state, || format!("fence {fence} again, or too late"));
        }
    }

    /// There is one holder, and the store knows it.
    fn check_beliefs(&self, state: &mut State, records: &[Option<LockRecord>], now: Moment) {
        let mut wrong = None;
        let mut holders = vec![0; records.len()];
        for belief in &state.beliefs {
            let is_taken_away = self.is_taken_away(state, belief);
            let id = || short(belief.lock_id);
            if belief.is_held() {
                let record = records[belief.key].as_ref();
                let is_stored = record.is_some_and(|record| record.lock_id == belief.lock_id);
                holders[belief.key] += usize::from(!is_taken_away);
                if holders[belief.key] > 1 {
                    wrong = Some(format!("two hold the same key, one is {}", id()));
                } else if !is_stored && !is_taken_away {
                    wrong = Some(format!(
                        "{} is believed to be held, and is not stored",
                        id()
                    ));
                }
                continue;
            }
            let is_closing = state.closing.contains(&belief.machine);
            if self.faults.calm && belief.lasts && !is_taken_away && !is_closing {
                wrong = Some(format!("{} was lost for no reason", id()));
            }
            let is_told = belief
                .told
                .as_ref()
                .is_none_or(|told| told.load(Ordering::Relaxed));
            let on_time = self.world.on_time_from(belief.machine);
            if !is_told && now > belief.over_since(now).max(on_time) + MAX_LOSS_DELAY {
                wrong = Some(format!("the holder of {} was not told of its end", id()));
            }
        }
        if let Some(wrong) = wrong {
            self.violate(state, || wrong);
        }
    }

    /// A lock that was released before its minimum hold time stays locked for the rest of that time.
    fn check_reserved(&self, state: &mut State, records: &[Option<LockRecord>], now: Moment) {
        let is_freed = |(lock_id, reserved): &(&LockId, &Reserved)| {
            let record = records[reserved.key].as_ref();
            let is_stored = record.is_some_and(|record| record.lock_id == **lock_id);
            now < reserved.until && !is_stored && !state.taken_away.contains(*lock_id)
        };
        let freed = state.reserved.iter().find(is_freed);
        if let Some((lock_id, _)) = freed
            && !self.faults.wild_clock
        {
            let id = short(*lock_id);
            self.violate(state, || format!("{id} was free before its shortest time"));
        }
    }

    /// No key stays locked without a holder.
    fn check_owned(&self, state: &mut State, key: usize, lock_id: LockId, now: Moment) {
        let State {
            stored,
            beliefs,
            operations,
            excused,
            reserved,
            ..
        } = state;
        let Some(lock) = stored.get_mut(&lock_id) else {
            return;
        };
        let may_get_it = |one: &Operation| {
            one.lock_id == Some(lock_id)
                || one.wants(lock.machine, key) && one.started <= lock.stored_at
        };
        if beliefs.iter().any(|belief| belief.lock_id == lock_id)
            || operations.iter().any(may_get_it)
        {
            lock.owned_at = now;
        }
        if let Some(reserved) = reserved.get(&lock_id) {
            let tolerance = Duration::from_millis(TIME_TOLERANCE_MS);
            lock.owned_at = lock.owned_at.max(reserved.until + tolerance);
        }
        let limit = if self.faults.calm && !excused.contains(&lock_id) {
            MAX_UNDO_TIME
        } else {
            let jump = Duration::from_millis(SAFE_JUMP_MS.unsigned_abs() + TIME_TOLERANCE_MS);
            lock.ttl + jump + OPERATION_LIMIT
        };
        let since = now.since(lock.owned_at);
        if since > limit && !self.faults.wild_clock {
            let id = short(lock_id);
            self.violate(state, || format!("{id} is nobody's since {since:?}"));
        }
    }

    /// A free key is acquired by its waiters.
    fn check_wanted(&self, state: &mut State, key: usize, now: Moment) {
        let of_key = &mut state.of_keys[key];
        let free_since = *of_key.free_since.get_or_insert(now);
        let freed_by = of_key.freed_by;
        if !self.faults.calm {
            return;
        }
        let is_late = |one: &&Operation| {
            let Kind::Wait { backoff } = one.kind else {
                return false;
            };
            let is_watched = self.faults.watches && !one.relies_on_holder;
            let hears_of_it = freed_by.is_some_and(|by| is_watched || by == one.machine);
            let limit = if hears_of_it {
                MAX_HANDOVER_TIME
            } else {
                backoff * 2 + MAX_HANDOVER_TIME
            };
            one.key == key && now.since(free_since.max(one.started)) > limit
        };
        if let Some(late) = state.operations.iter().find(is_late).map(|one| one.id) {
            self.violate(state, || format!("{late} waits for a key that is free"));
        }
    }

    /// Once everything has worked for a while, the store has only locks that somebody holds.
    pub(super) fn check_nothing_left(&self, store: &Store) {
        for key in &self.keys {
            let Some(record) = store.find(key) else {
                continue;
            };
            let mut state = self.state.lock();
            let is_held = |belief: &Belief| belief.lock_id == record.lock_id;
            if !state.excused.contains(&record.lock_id) && !state.beliefs.iter().any(is_held) {
                let id = short(record.lock_id);
                self.violate(&mut state, || format!("{id} was left locked"));
            }
        }
    }

    /// A closed client holds nothing. The locks of single acquires belong to their callers.
    pub(super) fn check_closed(&self, machine: usize) {
        let mut state = self.state.lock();
        let is_its = |one: &Belief| one.machine == machine && matches!(one.held, Held::Hold(_));
        let held = state
            .beliefs
            .iter()
            .find(|one| is_its(one) && one.is_held());
        if let Some(id) = held.map(|belief| short(belief.lock_id)) {
            self.violate(&mut state, || format!("{id} is held after the close"));
        }
        state.beliefs.retain(|belief| !is_its(belief));
    }
}
