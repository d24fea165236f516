//! A record of what callers, machines and the store do, as far as it matters for the invariants.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::faults::Faults;
use super::operations::{Asked, Operation, PROMPT};
use super::world::World;
use crate::backend::AcquireRequest;
use crate::client::host::Moment;
use crate::client::{Client, Hold};
use crate::lock::share::MARK_LEASE_MS;
use crate::lock::{Access, Fence, Key, LockId, Share, Ttl};

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
    /// By machine and key: the room that the first waiter there could use.
    pub rooms: BTreeMap<(usize, usize), Room>,
    /// Since when nobody else has a key that callers wait for together with others, and how long that
    /// may last.
    pub unhindered: Option<(Moment, Duration)>,
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
    /// The last fence in the store.
    pub stored_fence: u64,
    /// The last fence that a caller was told.
    pub last_fence: u64,
    pub fences: BTreeSet<u64>,
    /// The machine that last released a lock of this key, and when.
    pub freed: Option<(usize, Moment)>,
    pub mark: Option<LeftMark>,
    /// When a mark was last removed.
    pub unmarked: Option<Moment>,
    /// Since when the key has been shared.
    pub shared_since: Option<Moment>,
}

/// The mark of a waiting writer in a shared record.
#[derive(Clone, Copy)]
pub(super) struct LeftMark {
    pub id: LockId,
    pub machine: usize,
    pub until: Moment,
    /// When its writer was last seen waiting.
    pub wanted_at: Moment,
}

/// Room for a waiter that does not use it yet.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub since: Moment,
    /// When the waiter could hear of it.
    pub heard: Option<Moment>,
}

/// A lock in the store.
pub(super) struct Stored {
    pub machine: usize,
    pub access: Access,
    pub stored_at: Moment,
    /// When its caller was told of it: several locks are told of together.
    pub told_at: Moment,
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
    /// Until when it may be locked.
    pub latest: Moment,
}

/// A lock as its holder sees it.
pub(super) struct Belief {
    pub machine: usize,
    pub key: usize,
    pub lock_id: LockId,
    pub fence: Fence,
    pub access: Access,
    pub share: Option<Share>,
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

    pub(super) fn begin(&self, asked: Asked, limit: Option<Duration>) -> usize {
        let now = self.world.now();
        let mut state = self.state.lock();
        state.begun += 1;
        let operation = Operation {
            id: state.begun,
            asked,
            started: now,
            until: limit.map(|limit| now + limit + PROMPT),
            cancelled: false,
            disturbed: false,
            relies_on_holder: false,
            first_since: None,
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

    /// The operation acquired these locks for its caller.
    pub(super) fn granted(&self, id: usize, beliefs: Vec<Belief>) {
        let Some(granted) = self.finish(id, "granted") else {
            return;
        };
        let mut state = self.state.lock();
        self.check_turn(&mut state, &granted);
        self.check_complete(&mut state, &granted, &beliefs);
        for belief in beliefs {
            self.check_fence(&mut state, &belief);
            if !belief.access.is_shared() {
                state.set_relying(belief.machine, belief.key, true);
            }
            if let Some(stored) = state.stored.get_mut(&belief.lock_id) {
                stored.told_at = self.world.now();
            }
            state.grants += 1;
            state.beliefs.push(belief);
        }
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
        let latest = stored.told_at + shortest;
        self.trace(|| {
            let remaining = until.since(self.world.now());
            format!("reserved for {remaining:?}: {}", short(lock_id))
        });
        state
            .reserved
            .insert(lock_id, Reserved { key, until, latest });
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
            .filter(|one| one.asked.machine == machine);
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
        state.operations.retain(|one| one.asked.machine != machine);
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
            .filter(|one| one.asked.machine == machine);
        asleep.for_each(|operation| operation.suspended(until, duration + lag));
    }

    // Locks in the store.

    fn number(&self, key: &str) -> Option<usize> {
        self.keys.iter().position(|one| one.as_str() == key)
    }

    pub(super) fn stored(&self, request: &AcquireRequest, fence: Fence, machine: usize) {
        let now = self.world.now();
        self.trace(|| {
            let (id, key) = (short(request.lock_id), request.key.as_str());
            format!("stored for {machine}: {id}, {key} {:?}", request.access)
        });
        let is_dead = self.world.is_dead(machine);
        let key = self.number(request.key.as_str());
        let mut state = self.state.lock();
        if let Some(key) = key {
            self.check_admission(&mut state, key, request.access, fence);
        }
        if is_dead {
            state.excused.insert(request.lock_id);
        }
        let lock = Stored {
            machine,
            access: request.access,
            stored_at: now,
            told_at: now,
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
        if let Some(key) = self.number(key) {
            let mut state = self.state.lock();
            state.of_keys[key].freed = Some((machine, self.world.now()));
            state.set_relying(machine, key, false);
        }
    }

    /// An attempt left its mark in the record that refused it.
    pub(super) fn marked(&self, key: &str, id: LockId, machine: usize) {
        self.trace(|| format!("{key} marked by {machine}: {}", short(id)));
        let now = self.world.now();
        if let Some(key) = self.number(key) {
            self.state.lock().of_keys[key].mark = Some(LeftMark {
                id,
                machine,
                until: now + Duration::from_millis(MARK_LEASE_MS),
                wanted_at: now,
            });
        }
    }

    pub(super) fn unmarked(&self, key: &str, id: LockId, machine: usize) {
        self.remove_mark(key, machine, |mark| mark.id == id);
    }

    pub(super) fn all_unmarked(&self, key: &str, machine: usize) {
        self.remove_mark(key, machine, |_| true);
    }

    fn remove_mark(&self, key: &str, machine: usize, is_it: impl Fn(LeftMark) -> bool) {
        let now = self.world.now();
        if let Some(key) = self.number(key) {
            let of_key = &mut self.state.lock().of_keys[key];
            if let Some(mark) = of_key.mark.filter(|mark| is_it(*mark)) {
                self.trace(|| format!("unmarked by {machine}: {}", short(mark.id)));
                of_key.mark = None;
                of_key.unmarked = Some(now);
                of_key.freed = Some((machine, now));
            }
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
