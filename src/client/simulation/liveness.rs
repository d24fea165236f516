//! What must happen in time if nothing goes wrong: whoever can have a lock gets it, and a writer that
//! waits keeps new readers out.

use std::time::Duration;

use super::invariants::Records;
use super::ledger::{Ledger, Room, State, short};
use super::operations::Operation;
use crate::backend::LockRecord;
use crate::client::host::Moment;

/// The longest time until a released key is acquired by a waiter that can know about the release.
const MAX_HANDOVER_TIME: Duration = Duration::from_millis(800);
/// The longest time until a waiting writer has left its mark. It may poll at random because it met an
/// exclusive holder before.
const MAX_MARK_DELAY: Duration = MAX_HANDOVER_TIME;
/// The longest time until a writer leaves its mark again after it was replaced by another one's, which
/// is gone.
const MAX_REMARK_DELAY: Duration = Duration::from_millis(800);
/// The longest time that a mark outlasts the wait of its writer.
const MAX_UNMARK_DELAY: Duration = Duration::from_millis(100);

impl Ledger {
    pub(super) fn check_waits(&self, state: &mut State, records: &Records, now: Moment) {
        if !self.faults.calm {
            return;
        }
        for (key, records) in records.iter().enumerate() {
            note_sharing(state, key, records, now);
            for machine in self.machines(state) {
                self.check_queue(state, machine, key, records, now);
            }
            self.check_mark(state, key, now);
        }
        self.check_several(state, records, now);
    }

    fn machines(&self, state: &State) -> Vec<usize> {
        let mut machines: Vec<_> = state
            .operations
            .iter()
            .map(|one| one.asked.machine)
            .collect();
        machines.sort_unstable();
        machines.dedup();
        machines
    }

    /// The first waiter of a machine uses the room that there is. Those behind it see to that.
    fn check_queue(
        &self,
        state: &mut State,
        machine: usize,
        key: usize,
        records: &[LockRecord],
        now: Moment,
    ) {
        let queue: Vec<usize> = (0..state.operations.len())
            .filter(|at| {
                let one = &state.operations[*at];
                one.backoff().is_some() && one.wants(machine, key) && !one.cancelled
            })
            .collect();
        // A caller that waits for several keys may wait for this one, or for another.
        let is_plain = queue.iter().all(|at| state.operations[*at].waits_for_one());
        let Some(&first) = queue.first().filter(|_| is_plain) else {
            state.rooms.remove(&(machine, key));
            return;
        };
        state.operations[first].first_since.get_or_insert(now);
        let first = state.operations[first];
        self.check_marked(state, &first, key, now);
        if !has_room(state, &first, key, records, now) {
            state.rooms.remove(&(machine, key));
            return;
        }
        let freed = state.of_keys[key].freed;
        let room = state.rooms.entry((machine, key)).or_insert(Room {
            since: now,
            heard: None,
        });
        let is_watched = self.faults.watches && !first.relies_on_holder;
        if let Some((by, at)) = freed
            && at >= room.since
            && (is_watched || by == machine)
        {
            room.heard.get_or_insert(at);
        }
        let room = *room;
        let is_late = |one: &Operation| {
            let backoff = one.backoff().unwrap_or_default();
            let waited = |since: Moment| now.since(since.max(one.started));
            room.heard
                .is_some_and(|heard| waited(heard) > MAX_HANDOVER_TIME)
                || waited(room.since) > backoff * 2 + MAX_HANDOVER_TIME
        };
        let mut waiting = queue.iter().map(|at| &state.operations[*at]);
        if let Some(late) = waiting.find(|one| is_late(one)).map(|one| one.id) {
            self.violate(state, || format!("{late} waits for a key that has room"));
        }
    }

    /// A writer that waits has left a mark in the record that is in its way.
    fn check_marked(&self, state: &mut State, first: &Operation, key: usize, now: Moment) {
        let of_key = &state.of_keys[key];
        let Some(shared_since) = of_key.shared_since else {
            return;
        };
        let could = first.first_since.unwrap_or(now).max(shared_since);
        let is_marked = of_key.mark.is_some_and(|mark| now < mark.until);
        let was_replaced = |at: Moment| now.since(at) <= MAX_REMARK_DELAY;
        let limit = if self.faults.watches && !first.relies_on_holder {
            MAX_MARK_DELAY
        } else {
            first.backoff().unwrap_or_default() * 2 + MAX_MARK_DELAY
        };
        if !first.asked.access.is_shared()
            && !is_marked
            && now.since(could) > limit
            && !of_key.unmarked.is_some_and(was_replaced)
        {
            let id = first.id;
            self.violate(state, || format!("{id} waits to write without a mark"));
        }
    }

    /// A mark does not outlast the wait of its writer.
    fn check_mark(&self, state: &mut State, key: usize, now: Moment) {
        let Some(mut mark) = state.of_keys[key].mark.filter(|mark| now < mark.until) else {
            return;
        };
        let is_its = |one: &Operation| {
            let is_writer = one.backoff().is_some() && !one.asked.access.is_shared();
            is_writer && one.wants(mark.machine, key)
        };
        if state.operations.iter().any(is_its) {
            mark.wanted_at = now;
        }
        state.of_keys[key].mark = Some(mark);
        if now.since(mark.wanted_at) > MAX_UNMARK_DELAY {
            let id = short(mark.id);
            self.violate(state, || format!("the mark {id} was left"));
        }
    }

    /// Callers that wait for several keys do not wait for each other in a circle: one of them gets all
    /// of its keys, unless somebody else has one of their keys.
    fn check_several(&self, state: &mut State, records: &Records, now: Moment) {
        let is_owned = |record: &LockRecord| {
            let id = record.lock_id;
            state.excused.contains(&id)
                || state.reserved.contains_key(&id)
                || state.beliefs.iter().any(|belief| belief.lock_id == id)
        };
        let is_taken = |key: usize| records[key].iter().any(is_owned);
        let several = || {
            state
                .operations
                .iter()
                .filter(|one| one.waits_for_several())
        };
        let is_hindered = several().any(|one| one.asked.keys.iter().any(is_taken));
        // Otherwise only the back-off says when a key may be free.
        let is_told = |one: &Operation| {
            self.faults.watches && self.faults.tells_holder && !one.relies_on_holder
        };
        let backoff = |one: &Operation| {
            let backoff = one.backoff().filter(|_| !is_told(one));
            backoff.unwrap_or_default()
        };
        let turns: Duration = several()
            .map(|one| backoff(one) * 2 + MAX_HANDOVER_TIME)
            .sum();
        let Some(id) = several().next().map(|one| one.id).filter(|_| !is_hindered) else {
            state.unhindered = None;
            return;
        };
        let (since, limit) = state.unhindered.unwrap_or((now, Duration::ZERO));
        // Of those that gave up, others have yet to notice it.
        let limit = limit.max(turns * records.len() as u32);
        state.unhindered = Some((since, limit));
        if now.since(since) > limit {
            self.violate(state, || format!("{id} waits for keys that nobody has"));
        }
    }
}

fn note_sharing(state: &mut State, key: usize, records: &[LockRecord], now: Moment) {
    let is_shared = records.iter().any(|record| record.share.is_some());
    let of_key = &mut state.of_keys[key];
    if is_shared {
        of_key.shared_since.get_or_insert(now);
    } else {
        of_key.shared_since = None;
    }
}

fn has_room(
    state: &State,
    waiter: &Operation,
    key: usize,
    records: &[LockRecord],
    now: Moment,
) -> bool {
    let access = waiter.asked.access;
    let is_marked = state.of_keys[key].mark.is_some_and(|mark| now < mark.until);
    let is_exclusive = records.iter().any(|record| record.share.is_none());
    let holders = u32::try_from(records.len()).unwrap_or(u32::MAX);
    access.admits(holders) && !is_exclusive && !(access.is_shared() && is_marked)
}
