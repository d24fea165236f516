//! A record of what callers, machines and the store do, as far as it matters for the invariants.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::faults::Faults;
use super::operations::{Kind, Operation, PROMPT};
use super::world::World;
use crate::backend::AcquireRequest;
use crate::client::host::Moment;
use crate::client::{Client, Hold};
use crate::lock::{Fence, Key, LockId, Ttl};

pub(super) struct Ledger {
    pub world: Arc<World>,
    pub keys: Vec<Key>,
    pub faults: Faults,
    traced: bool,
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub violation: Option<String>,
    pub begun: usize,
    pub grants: usize,
    pub operations: Vec<Operation>,
    pub beliefs: Vec<Belief>,
    pub stored: BTreeMap<LockId, Stored>,
    pub taken_away: BTreeSet<LockId>,
    pub excused: BTreeSet<LockId>,
    pub reserved: BTreeMap<LockId, Reserved>,
    pub closing: BTreeSet<usize>,
    pub of_keys: Vec<OfKey>,
}

impl State {
    fn set_relying(&mut self, machine: usize, key: usize, relies: bool) {
        let waiting = self.operations.iter_mut();
        waiting
            .filter(|one| one.wants(machine, key))
            .for_each(|one| one.relies_on_holder = relies);
    }
}

#[derive(Default, Clone)]
pub(super) struct OfKey {
    pub last_fence: u64,
    pub fences: BTreeSet<u64>,
    pub free_since: Option<Moment>,
    /// The machine that released it.
    pub freed_by: Option<usize>,
}

/// A lock in the store.
pub(super) struct Stored {
    pub machine: usize,
    pub stored_at: Moment,
    /// The longest TTL that it was given.
    pub ttl: Duration,
    /// When somebody last held it or could still acquire it.
    pub owned_at: Moment,
}

/// A lock that was released before its minimum hold time.
#[derive(Clone, Copy)]
pub(super) struct Reserved {
    pub key: usize,
    /// Until when nobody else may hold it.
    pub until: Moment,
}

/// A lock as its holder sees it.
pub(super) struct Belief {
    pub machine: usize,
    pub key: usize,
    pub lock_id: LockId,
    pub fence: Fence,
    pub client: Arc<Client>,
    pub held: Held,
    /// Whether it lasts until somebody ends it.
    pub lasts: bool,
    /// Whether its listener was told that it is lost. None if there is no listener.
    pub told: Option<Arc<AtomicBool>>,
}

pub(super) enum Held {
    Hold(Arc<Hold>),
    Until(Moment),
}

impl Belief {
    pub(super) fn is_held(&self) -> bool {
        match &self.held {
            Held::Hold(hold) => self.client.held_for(hold).is_some(),
            Held::Until(moment) => self.client.host().now() < *moment,
        }
    }

    /// Since when it is not, at most.
    pub(super) fn over_since(&self, now: Moment) -> Moment {
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

    pub(super) fn trace(&self, text: impl FnOnce() -> String) {
        if self.traced {
            let elapsed = self.world.now().since_start();
            println!("{:>12.3} ms  {}", elapsed.as_secs_f64() * 1000.0, text());
        }
    }

    pub(super) fn violated(&self, what: &str) {
        self.violate(&mut self.state.lock(), || what.to_owned());
    }

    pub(super) fn violate(&self, state: &mut State, what: impl FnOnce() -> String) {
        let what = what();
        self.trace(|| format!("VIOLATED: {what}"));
        let elapsed = self.world.now().since_start();
        let first = || format!("after {} ms: {what}", elapsed.as_millis());
        state.violation.get_or_insert_with(first);
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.state.lock().violation.clone()
    }

    // Callers.

    pub(super) fn begin(
        &self,
        machine: usize,
        key: usize,
        kind: Kind,
        lock_id: Option<LockId>,
        limit: Option<Duration>,
    ) -> usize {
        let now = self.world.now();
        let mut state = self.state.lock();
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
            relies_on_holder: false,
        };
        self.trace(|| format!("{operation:?}"));
        state.operations.push(operation);
        operation.id
    }

    pub(super) fn finish(&self, id: usize, how: &str) -> Option<Operation> {
        self.trace(|| format!("operation {id} ended: {how}"));
        let mut state = self.state.lock();
        let at = state.operations.iter().position(|one| one.id == id)?;
        let operation = state.operations.remove(at);
        self.check_limit(&mut state, &operation);
        Some(operation)
    }

    pub(super) fn cancelled(&self, id: usize) {
        self.trace(|| format!("operation {id} cancelled"));
        let now = self.world.now();
        let mut state = self.state.lock();
        let found = state.operations.iter_mut().find(|one| one.id == id);
        if let Some(operation) = found {
            operation.cancelled = true;
            operation.ends_now(now);
        }
    }

    /// The operation acquired a lock for its caller.
    pub(super) fn granted(&self, id: usize, belief: Belief) {
        let Some(granted) = self.finish(id, "granted") else {
            return;
        };
        let mut state = self.state.lock();
        self.check_turn(&mut state, &granted);
        self.check_fence(&mut state, &belief);
        state.set_relying(granted.machine, granted.key, true);
        state.grants += 1;
        state.beliefs.push(belief);
    }

    /// The holder does not rely on the lock any more.
    pub(super) fn let_go(&self, lock_id: LockId) {
        let mut state = self.state.lock();
        state.beliefs.retain(|belief| belief.lock_id != lock_id);
    }

    /// The caller of a single acquire believes that the lock lasts until then.
    pub(super) fn lasts_until(&self, lock_id: LockId, until: impl FnOnce(Moment) -> Moment) {
        let mut state = self.state.lock();
        let found = state.beliefs.iter_mut().find(|one| one.lock_id == lock_id);
        if let Some(Held::Until(moment)) = found.map(|belief| &mut belief.held) {
            *moment = until(*moment);
        }
    }

    /// It was released, and must stay locked until `shortest` after the store granted it.
    pub(super) fn reserve(&self, key: usize, lock_id: LockId, shortest: Duration) {
        let mut state = self.state.lock();
        let Some(stored) = state.stored.get(&lock_id) else {
            return;
        };
        let until = stored.stored_at + shortest;
        self.trace(|| {
            let remaining = until.since(self.world.now());
            format!("reserved for {remaining:?}: {}", short(lock_id))
        });
        state.reserved.insert(lock_id, Reserved { key, until });
    }

    /// Only the TTL ends the lock, and whoever should have released it knows that.
    pub(super) fn excuse(&self, lock_id: LockId) {
        self.state.lock().excused.insert(lock_id);
    }

    // Machines.

    pub(super) fn closing(&self, machine: usize) {
        let now = self.world.now();
        let mut state = self.state.lock();
        state.closing.insert(machine);
        let waits = state
            .operations
            .iter_mut()
            .filter(|one| one.machine == machine);
        waits.for_each(|operation| operation.ends_now(now));
    }

    pub(super) fn is_closing(&self, machine: usize) -> bool {
        self.state.lock().closing.contains(&machine)
    }

    /// The locks of the machine end only by their TTL.
    pub(super) fn excuse_machine(&self, machine: usize) {
        let mut state = self.state.lock();
        let State {
            stored, excused, ..
        } = &mut *state;
        let left = stored.iter().filter(|(_, lock)| lock.machine == machine);
        excused.extend(left.map(|(lock_id, _)| *lock_id));
    }

    pub(super) fn killed(&self, machine: usize) {
        self.trace(|| format!("machine {machine} dies"));
        let mut state = self.state.lock();
        state.operations.retain(|one| one.machine != machine);
        state.beliefs.retain(|one| one.machine != machine);
        drop(state);
        self.excuse_machine(machine);
    }

    pub(super) fn suspended(&self, machine: usize, duration: Duration, lag: Duration) {
        self.trace(|| format!("machine {machine} sleeps for {duration:?} and {lag:?}"));
        let until = self.world.now() + duration + lag;
        let mut state = self.state.lock();
        let asleep = state
            .operations
            .iter_mut()
            .filter(|one| one.machine == machine);
        asleep.for_each(|operation| operation.suspended(until, duration + lag));
    }

    // Locks in the store.

    pub(super) fn stored(&self, request: &AcquireRequest, machine: usize) {
        let now = self.world.now();
        self.trace(|| format!("stored for {machine}: {}", short(request.lock_id)));
        let is_dead = self.world.is_dead(machine);
        let mut state = self.state.lock();
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
        if let Some(lock) = self.state.lock().stored.get_mut(&lock_id) {
            lock.ttl = lock.ttl.max(ttl.duration());
        }
    }

    pub(super) fn released(&self, key: &str, lock_id: LockId, machine: usize) {
        self.trace(|| format!("released by {machine}: {}", short(lock_id)));
        if let Some(key) = self.keys.iter().position(|one| one.as_str() == key) {
            let mut state = self.state.lock();
            state.of_keys[key].freed_by = Some(machine);
            state.set_relying(machine, key, false);
        }
    }

    pub(super) fn taken_away(&self, lock_id: LockId) {
        self.state.lock().taken_away.insert(lock_id);
    }

    pub(super) fn grants(&self) -> usize {
        self.state.lock().grants
    }

    pub(super) fn operations_left(&self) -> usize {
        self.state.lock().operations.len()
    }
}

/// A short name, for a person who follows one run.
pub(super) fn short(lock_id: LockId) -> String {
    lock_id.as_str().chars().take(6).collect()
}
