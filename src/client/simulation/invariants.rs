//! What must be true after every step, whatever goes wrong.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::faults::{OPERATION_LIMIT, SAFE_JUMP_MS};
use super::ledger::{Belief, Held, Ledger, State, short};
use super::operations::{Kind, Operation, PROMPT};
use super::store::Store;
use crate::backend::LockRecord;
use crate::client::host::Moment;
use crate::lock::LockId;
use crate::lock::time::TIME_TOLERANCE_MS;

/// Where nothing goes wrong: until an undo is done...
const UNDONE: Duration = Duration::from_secs(1);
/// ...and until a key that was given back is taken by one who can know of it.
const HANDED_OVER: Duration = Duration::from_millis(800);
/// Until a holder knows that its time is over.
const TOLD: Duration = Duration::from_millis(10);

impl Ledger {
    pub(super) fn check(&self, store: &Store) {
        let now = self.world.now();
        let records: Vec<Option<LockRecord>> =
            self.keys.iter().map(|key| store.find(key)).collect();
        let mut state = self.lock();
        let late = state.operations.iter().find(|one| one.is_late(now));
        if let Some(late) = late.copied() {
            self.check_limit(&mut state, &late);
        }
        self.check_beliefs(&mut state, &records, now);
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

    /// Its holder could not know.
    pub(super) fn is_taken_away(&self, state: &State, belief: &Belief) -> bool {
        self.faults.wild_clock || state.taken_away.contains(&belief.lock_id)
    }

    pub(super) fn check_limit(&self, state: &mut State, operation: &Operation) {
        if operation.is_late(self.world.now()) {
            self.violate(state, || format!("it took too long: {operation:?}"));
        }
    }

    /// Nobody gets what he does not want any more, or before those who came earlier.
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

    /// One holder, and the store knows of it.
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
            if !is_told && now > belief.over_since(now).max(on_time) + TOLD {
                wrong = Some(format!("the holder of {} was not told of its end", id()));
            }
        }
        if let Some(wrong) = wrong {
            self.violate(state, || wrong);
        }
    }

    /// Nothing stays locked for nobody.
    fn check_owned(&self, state: &mut State, key: usize, lock_id: LockId, now: Moment) {
        let State {
            stored,
            beliefs,
            operations,
            excused,
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
        let limit = if self.faults.calm && !excused.contains(&lock_id) {
            UNDONE
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

    /// A key that is free is taken by those who wait for it.
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
                HANDED_OVER
            } else {
                backoff * 2 + HANDED_OVER
            };
            one.key == key && now.since(free_since.max(one.started)) > limit
        };
        if let Some(late) = state.operations.iter().find(is_late).map(|one| one.id) {
            self.violate(state, || format!("{late} waits for a key that is free"));
        }
    }

    /// When everything has worked for a while, only what somebody holds is there.
    pub(super) fn check_nothing_left(&self, store: &Store) {
        for key in &self.keys {
            let Some(record) = store.find(key) else {
                continue;
            };
            let mut state = self.lock();
            let is_held = |belief: &Belief| belief.lock_id == record.lock_id;
            if !state.excused.contains(&record.lock_id) && !state.beliefs.iter().any(is_held) {
                let id = short(record.lock_id);
                self.violate(&mut state, || format!("{id} was left locked"));
            }
        }
    }

    /// Who is closed holds nothing. Locks of single acquires are their callers'.
    pub(super) fn check_closed(&self, machine: usize) {
        let mut state = self.lock();
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
