//! What must be true after every step, whatever goes wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::faults::{Faults, OPERATION_LIMIT, SAFE_JUMP_MS};
use super::operations::{Kind, Operation, PROMPT};
use super::store::Store;
use super::world::World;
use crate::backend::{AcquireRequest, LockRecord};
use crate::client::host::Moment;
use crate::client::{Client, Hold};
use crate::lock::time::TIME_TOLERANCE_MS;
use crate::lock::{Fence, Key, LockId, Ttl};

/// Where nothing goes wrong: until an undo is done...
const UNDONE: Duration = Duration::from_secs(1);
/// ...and until a key that was given back is taken by one who can know of it.
const HANDED_OVER: Duration = Duration::from_millis(800);
/// Until a holder knows that its time is over.
const TOLD: Duration = Duration::from_millis(10);

pub(super) struct Ledger {
    pub world: Arc<World>,
    pub keys: Vec<Key>,
    faults: Faults,
    traced: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    violation: Option<String>,
    begun: usize,
    grants: usize,
    operations: Vec<Operation>,
    beliefs: Vec<Belief>,
    stored: BTreeMap<LockId, Stored>,
    taken_away: BTreeSet<LockId>,
    excused: BTreeSet<LockId>,
    closing: BTreeSet<usize>,
    of_keys: Vec<OfKey>,
}

#[derive(Default, Clone)]
struct OfKey {
    last_fence: u64,
    fences: BTreeSet<u64>,
    free_since: Option<Moment>,
    /// The machine that gave it back.
    freed_by: Option<usize>,
}

/// A lock as the store has it.
struct Stored {
    machine: usize,
    stored_at: Moment,
    /// The longest it was given.
    ttl: Duration,
    /// When somebody had it last, or could still get it.
    owned_at: Moment,
}

/// A lock as its holder has it.
pub(super) struct Belief {
    pub machine: usize,
    pub key: usize,
    pub lock_id: LockId,
    pub fence: Fence,
    pub client: Arc<Client>,
    pub held: Held,
    /// It lasts until somebody ends it.
    pub lasts: bool,
    /// Whether its listener was told that it is lost; nothing when there is none.
    pub told: Option<Arc<AtomicBool>>,
}

pub(super) enum Held {
    Hold(Arc<Hold>),
    Until(Moment),
}

impl Belief {
    fn is_held(&self) -> bool {
        match &self.held {
            Held::Hold(hold) => self.client.held_for(hold).is_some(),
            Held::Until(moment) => self.client.host().now() < *moment,
        }
    }

    /// Since when it is not, at most.
    fn over_since(&self, now: Moment) -> Moment {
        match &self.held {
            Held::Hold(hold) => {
                let passed = self.client.host().now().since(hold.valid_until());
                let elapsed = now.since_start().saturating_sub(passed);
                Moment::after_start(elapsed)
            }
            Held::Until(_) => now,
        }
    }
}

impl Ledger {
    pub(super) fn new(world: &Arc<World>, keys: Vec<Key>, faults: Faults, traced: bool) -> Self {
        Self {
            world: Arc::clone(world),
            faults,
            traced,
            state: Mutex::new(State {
                of_keys: vec![OfKey::default(); keys.len()],
                ..State::default()
            }),
            keys,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn trace(&self, text: impl FnOnce() -> String) {
        if self.traced {
            let elapsed = self.world.now().since_start();
            println!("{:>12.3} ms  {}", elapsed.as_secs_f64() * 1000.0, text());
        }
    }

    pub(super) fn violated(&self, what: &str) {
        self.violate(&mut self.lock(), || what.to_owned());
    }

    fn violate(&self, state: &mut State, what: impl FnOnce() -> String) {
        let what = what();
        self.trace(|| format!("VIOLATED: {what}"));
        let elapsed = self.world.now().since_start();
        let first = || format!("after {} ms: {what}", elapsed.as_millis());
        state.violation.get_or_insert_with(first);
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.lock().violation.clone()
    }

    // What callers do.

    pub(super) fn begin(
        &self,
        machine: usize,
        key: usize,
        kind: Kind,
        lock_id: Option<LockId>,
        limit: Option<Duration>,
    ) -> usize {
        let now = self.world.now();
        let mut state = self.lock();
        state.begun += 1;
        let operation = Operation {
            id: state.begun,
            machine,
            key,
            kind,
            lock_id,
            started: now,
            until: limit.map(|limit| now + limit + PROMPT),
            cancelled: false,
            disturbed: false,
        };
        self.trace(|| format!("{operation:?}"));
        state.operations.push(operation);
        operation.id
    }

    pub(super) fn finish(&self, id: usize, how: &str) -> Option<Operation> {
        self.trace(|| format!("operation {id} ended: {how}"));
        let mut state = self.lock();
        let at = state.operations.iter().position(|one| one.id == id)?;
        let operation = state.operations.remove(at);
        self.check_limit(&mut state, &operation);
        Some(operation)
    }

    pub(super) fn cancelled(&self, id: usize) {
        self.trace(|| format!("operation {id} cancelled"));
        let now = self.world.now();
        let mut state = self.lock();
        let found = state.operations.iter_mut().find(|one| one.id == id);
        if let Some(operation) = found {
            operation.cancelled = true;
            operation.ends_now(now);
        }
    }

    /// The operation gave its caller a lock.
    pub(super) fn granted(&self, id: usize, belief: Belief) {
        let Some(granted) = self.finish(id, "granted") else {
            return;
        };
        let now = self.world.now();
        let mut state = self.lock();
        if granted.cancelled {
            self.violate(&mut state, || {
                format!("operation {id} was cancelled and got the lock")
            });
        }
        let surely_waits = self.faults.longest_operation() + PROMPT;
        let overtaken = state
            .operations
            .iter()
            .find(|other| granted.overtakes(other, surely_waits, now))
            .map(|other| other.id);
        if let Some(other) = overtaken {
            self.violate(&mut state, || format!("{id} was served before {other}"));
        }
        let is_taken_away = self.is_taken_away(&state, &belief);
        state.grants += 1;
        let fence = belief.fence.value();
        let of_key = &mut state.of_keys[belief.key];
        let is_twice = !of_key.fences.insert(fence);
        let is_behind = !is_taken_away && belief.is_held() && fence <= of_key.last_fence;
        of_key.last_fence = of_key.last_fence.max(fence);
        if is_twice || is_behind {
            self.violate(&mut state, || format!("fence {fence} again, or too late"));
        }
        state.beliefs.push(belief);
    }

    /// Its holder does not rely on it any more.
    pub(super) fn let_go(&self, lock_id: LockId) {
        let mut state = self.lock();
        state.beliefs.retain(|belief| belief.lock_id != lock_id);
    }

    /// The lock of a single acquire is believed to last until then.
    pub(super) fn lasts_until(&self, lock_id: LockId, until: impl FnOnce(Moment) -> Moment) {
        let mut state = self.lock();
        let found = state.beliefs.iter_mut().find(|one| one.lock_id == lock_id);
        if let Some(Held::Until(moment)) = found.map(|belief| &mut belief.held) {
            *moment = until(*moment);
        }
    }

    /// Only its TTL ends it, and whoever should have given it back knows that.
    pub(super) fn excuse(&self, lock_id: LockId) {
        self.lock().excused.insert(lock_id);
    }

    // What becomes of machines.

    pub(super) fn closing(&self, machine: usize) {
        let now = self.world.now();
        let mut state = self.lock();
        state.closing.insert(machine);
        let waits = state
            .operations
            .iter_mut()
            .filter(|one| one.machine == machine);
        waits.for_each(|operation| operation.ends_now(now));
    }

    pub(super) fn is_closing(&self, machine: usize) -> bool {
        self.lock().closing.contains(&machine)
    }

    /// What it left has only its TTL.
    pub(super) fn excuse_machine(&self, machine: usize) {
        let mut state = self.lock();
        let State {
            stored, excused, ..
        } = &mut *state;
        let left = stored.iter().filter(|(_, lock)| lock.machine == machine);
        excused.extend(left.map(|(lock_id, _)| *lock_id));
    }

    pub(super) fn killed(&self, machine: usize) {
        self.trace(|| format!("machine {machine} dies"));
        let mut state = self.lock();
        state.operations.retain(|one| one.machine != machine);
        state.beliefs.retain(|one| one.machine != machine);
        drop(state);
        self.excuse_machine(machine);
    }

    pub(super) fn suspended(&self, machine: usize, duration: Duration, lag: Duration) {
        self.trace(|| format!("machine {machine} sleeps for {duration:?} and {lag:?}"));
        let until = self.world.now() + duration + lag;
        let mut state = self.lock();
        let asleep = state
            .operations
            .iter_mut()
            .filter(|one| one.machine == machine);
        asleep.for_each(|operation| operation.suspended(until, duration + lag));
    }

    // What becomes of locks in the store.

    pub(super) fn stored(&self, request: &AcquireRequest, machine: usize) {
        let now = self.world.now();
        self.trace(|| format!("stored for {machine}: {}", short(request.lock_id)));
        let is_dead = self.world.is_dead(machine);
        let mut state = self.lock();
        if is_dead {
            state.excused.insert(request.lock_id);
        }
        let lock = Stored {
            machine,
            stored_at: now,
            ttl: request.ttl.duration(),
            owned_at: now,
        };
        state.stored.insert(request.lock_id, lock);
    }

    pub(super) fn prolonged(&self, lock_id: LockId, ttl: Ttl) {
        self.trace(|| format!("extended for {ttl:?}: {}", short(lock_id)));
        if let Some(lock) = self.lock().stored.get_mut(&lock_id) {
            lock.ttl = lock.ttl.max(ttl.duration());
        }
    }

    pub(super) fn released(&self, key: &str, lock_id: LockId, machine: usize) {
        self.trace(|| format!("released by {machine}: {}", short(lock_id)));
        if let Some(key) = self.keys.iter().position(|one| one.as_str() == key) {
            self.lock().of_keys[key].freed_by = Some(machine);
        }
    }

    pub(super) fn taken_away(&self, lock_id: LockId) {
        self.lock().taken_away.insert(lock_id);
    }

    // After every step.

    pub(super) fn check(&self, store: &Store) {
        let now = self.world.now();
        let records: Vec<Option<LockRecord>> =
            self.keys.iter().map(|key| store.find(key)).collect();
        let mut state = self.lock();
        self.check_operations(&mut state);
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
    fn is_taken_away(&self, state: &State, belief: &Belief) -> bool {
        self.faults.wild_clock || state.taken_away.contains(&belief.lock_id)
    }

    fn check_limit(&self, state: &mut State, operation: &Operation) {
        let now = self.world.now();
        if operation.until.is_some_and(|until| now > until) {
            self.violate(state, || format!("it took too long: {operation:?}"));
        }
    }

    fn check_operations(&self, state: &mut State) {
        let now = self.world.now();
        let late = |one: &&Operation| one.until.is_some_and(|until| now > until);
        if let Some(operation) = state.operations.iter().find(late).copied() {
            self.check_limit(state, &operation);
        }
    }

    /// One holder, and the store knows of it.
    fn check_beliefs(&self, state: &mut State, records: &[Option<LockRecord>], now: Moment) {
        let mut wrong = None;
        let mut holders = vec![0; records.len()];
        for belief in &state.beliefs {
            let is_taken_away = self.is_taken_away(state, belief);
            let id = short(belief.lock_id);
            if belief.is_held() {
                let record = records[belief.key].as_ref();
                let is_stored = record.is_some_and(|record| record.lock_id == belief.lock_id);
                holders[belief.key] += usize::from(!is_taken_away);
                if holders[belief.key] > 1 {
                    wrong = Some(format!("two hold the same key, {id} is one of them"));
                } else if !is_stored && !is_taken_away {
                    wrong = Some(format!("{id} is believed to be held, and is not stored"));
                }
                continue;
            }
            let is_closing = state.closing.contains(&belief.machine);
            if self.faults.calm && belief.lasts && !is_taken_away && !is_closing {
                wrong = Some(format!("{id} was lost for no reason"));
            }
            let is_told = belief
                .told
                .as_ref()
                .is_none_or(|told| told.load(Ordering::Relaxed));
            let on_time = self.world.on_time_from(belief.machine);
            if !is_told && now > belief.over_since(now).max(on_time) + TOLD {
                wrong = Some(format!("the holder of {id} was not told that it is lost"));
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
            let hears_of_it = freed_by.is_some_and(|by| self.faults.watches || by == one.machine);
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

    // At the end.

    pub(super) fn grants(&self) -> usize {
        self.lock().grants
    }

    pub(super) fn operations_left(&self) -> usize {
        self.lock().operations.len()
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
        let is_held = |belief: &&Belief| {
            belief.machine == machine && matches!(belief.held, Held::Hold(_)) && belief.is_held()
        };
        if let Some(id) = state.beliefs.iter().find(is_held).map(|one| one.lock_id) {
            let id = short(id);
            self.violate(&mut state, || format!("{id} is held after the close"));
        }
        state.beliefs.retain(|belief| belief.machine != machine);
    }
}

/// For a person who follows one run.
fn short(lock_id: LockId) -> String {
    lock_id.as_str().chars().take(6).collect()
}
