//! The invariants, which must hold after every step whatever goes wrong.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::faults::{OPERATION_LIMIT, SAFE_JUMP_MS};
use super::ledger::{Belief, Held, Ledger, Reserved, State, short};
use super::operations::{Keys, Operation, PROMPT};
use super::store::Store;
use crate::backend::LockRecord;
use crate::client::host::Moment;
use crate::lock::time::TIME_TOLERANCE_MS;
use crate::lock::{Access, Fence, LockId};

/// The longest time of an undo if nothing goes wrong.
pub(super) const MAX_UNDO_TIME: Duration = Duration::from_secs(1);
/// The longest time until a holder knows that its lock has expired.
const MAX_LOSS_DELAY: Duration = Duration::from_millis(10);

/// The live locks in the store, by the number of their key.
pub(super) type Records = Vec<Vec<LockRecord>>;

/// A holder of a key, as far as it matters to the others.
#[derive(Clone, Copy)]
struct Holder {
    access: Access,
    slot: Option<u32>,
}

/// Returns what is wrong if these hold one key at the same time.
fn conflict(holders: &[Holder]) -> Option<&'static str> {
    let limit = |holder: &Holder| match holder.access {
        Access::Exclusive => 1,
        Access::Shared { limit } => limit as usize,
    };
    let largest = holders.iter().map(limit).max().unwrap_or(1);
    let slots: Vec<_> = holders.iter().filter_map(|holder| holder.slot).collect();
    let is_alone = |holder: &Holder| !holder.access.is_shared() && holders.len() > 1;
    let has_twin = |slot: &u32| slots.iter().filter(|other| *other == slot).count() > 1;
    let has_slot = |holder: &Holder| holder.access.is_shared() == holder.slot.is_some();
    if holders.iter().any(is_alone) {
        Some("two hold the same key, and one of them does not share it")
    } else if holders.len() > largest {
        Some("more hold the same key than any of them allows")
    } else if slots.iter().any(has_twin) {
        Some("two have the same slot")
    } else if !holders.iter().all(has_slot) {
        Some("a holder without a slot shares a key, or one with a slot does not")
    } else {
        None
    }
}

impl Ledger {
    pub(super) fn check(&self, store: &Store) {
        let now = self.world.now();
        let locks = store.locks();
        let of_key = |key| locks.iter().filter(move |lock| lock.key == key).cloned();
        let keys = self.keys.iter();
        let records: Records = keys.map(|key| of_key(key.as_str()).collect()).collect();
        let mut state = self.state.lock();
        let late = state.operations.iter().find(|one| one.is_late(now));
        if let Some(late) = late.copied() {
            self.check_limit(&mut state, &late);
        }
        self.check_beliefs(&mut state, &records, now);
        self.check_stored(&mut state, &records);
        self.check_reserved(&mut state, &records, now);
        for (key, records) in records.iter().enumerate() {
            for record in records {
                self.check_owned(&mut state, key, record.lock_id, now);
            }
        }
        self.check_waits(&mut state, &records, now);
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

    /// All keys of the operation are held together.
    pub(super) fn check_complete(
        &self,
        state: &mut State,
        granted: &Operation,
        beliefs: &[Belief],
    ) {
        let keys: Keys = beliefs.iter().map(|belief| belief.key).collect();
        if keys != granted.asked.keys || beliefs.len() != keys.iter().count() {
            let id = granted.id;
            self.violate(state, || format!("{id} did not get its keys"));
        }
        for belief in beliefs.iter().filter(|_| self.faults.calm) {
            if !belief.is_held() && !self.is_taken_away(state, belief) {
                let id = short(belief.lock_id);
                self.violate(state, || format!("{id} was lost before it was granted"));
            }
        }
    }

    /// The fences in the store rise, and nobody is let in before a waiting writer.
    pub(super) fn check_admission(
        &self,
        state: &mut State,
        key: usize,
        access: Access,
        fence: Fence,
    ) {
        let now = self.world.now();
        let of_key = &mut state.of_keys[key];
        let is_behind = fence.value() <= of_key.stored_fence;
        of_key.stored_fence = fence.value();
        let is_barred = access.is_shared() && of_key.mark.is_some_and(|mark| now < mark.until);
        if !access.is_shared() {
            of_key.mark = None;
        }
        if is_behind {
            self.violate(state, || format!("fence {} is not new", fence.value()));
        }
        if is_barred && self.faults.calm {
            self.violate(state, || "a writer that waits was overtaken".to_owned());
        }
    }

    /// A caller that has an exclusive lock knows of no higher fence. Answers to holders that share the
    /// key may overtake each other.
    pub(super) fn check_fence(&self, state: &mut State, belief: &Belief) {
        let is_last = !self.is_taken_away(state, belief) && belief.is_held();
        let fence = belief.fence.value();
        let of_key = &mut state.of_keys[belief.key];
        let is_behind = is_last && !belief.access.is_shared() && fence <= of_key.last_fence;
        of_key.last_fence = of_key.last_fence.max(fence);
        if !of_key.fences.insert(fence) || is_behind {
            self.violate(state, || format!("fence {fence} again, or too late"));
        }
    }

    /// Nobody holds a key beside others that do not allow it, and the store knows all holders.
    fn check_beliefs(&self, state: &mut State, records: &Records, now: Moment) {
        let mut wrong = None;
        let mut holders = vec![Vec::new(); records.len()];
        for belief in &state.beliefs {
            let is_taken_away = self.is_taken_away(state, belief);
            let id = || short(belief.lock_id);
            if belief.is_held() {
                let is_its = |record: &LockRecord| record.lock_id == belief.lock_id;
                if is_taken_away {
                    continue;
                }
                holders[belief.key].push(Holder {
                    access: belief.access,
                    slot: belief.share.map(|share| share.slot),
                });
                if !records[belief.key].iter().any(is_its) {
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
        if let Some(conflict) = holders.iter().find_map(|holders| conflict(holders)) {
            wrong = Some(conflict.to_owned());
        }
        if let Some(wrong) = wrong {
            self.violate(state, || wrong);
        }
    }

    /// What the store has is consistent, whatever holders believe.
    fn check_stored(&self, state: &mut State, records: &Records) {
        let conflict = records.iter().find_map(|records| {
            let holders = records.iter().filter_map(|record| {
                Some(Holder {
                    access: state.stored.get(&record.lock_id)?.access,
                    slot: record.share.map(|share| share.slot),
                })
            });
            conflict(&holders.collect::<Vec<_>>())
        });
        if let Some(conflict) = conflict {
            self.violate(state, || format!("in the store, {conflict}"));
        }
    }

    /// A lock that was released before its minimum hold time stays locked for the rest of that time.
    fn check_reserved(&self, state: &mut State, records: &Records, now: Moment) {
        let is_freed = |(lock_id, reserved): &(&LockId, &Reserved)| {
            let is_its = |record: &LockRecord| record.lock_id == **lock_id;
            let is_stored = records[reserved.key].iter().any(is_its);
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
            one.asked.lock_id == Some(lock_id)
                || one.wants(lock.machine, key) && one.started <= lock.stored_at
        };
        if beliefs.iter().any(|belief| belief.lock_id == lock_id)
            || operations.iter().any(may_get_it)
        {
            lock.owned_at = now;
        }
        if let Some(reserved) = reserved.get(&lock_id) {
            let tolerance = Duration::from_millis(TIME_TOLERANCE_MS);
            lock.owned_at = lock.owned_at.max(reserved.latest + tolerance);
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

    /// Once everything has worked for a while, the store has only locks that somebody holds.
    pub(super) fn check_nothing_left(&self, store: &Store) {
        for record in store.locks() {
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
