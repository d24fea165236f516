//! The engine in a simulated world. Chance decides who runs next, how long everything takes, and what
//! goes wrong. It comes from a seed, so that a run can be repeated:
//!
//! ```text
//! SYNCGUARD_SIMULATION_SEED=17 cargo test --no-default-features simulation::replay -- --nocapture
//! SYNCGUARD_SIMULATION_RUNS=100000 cargo test --release --no-default-features simulation::holds
//! ```
//!
//! - [`world`]: machines, tasks and time, which the engine sees as a [`host`];
//! - [`store`]: the store that machines share, its [`faults`], and a [`watch`] for each waiter;
//! - [`callers`]: the calls of the engine, their [`policies`], and [`cancelling`] them;
//! - [`ledger`]: what happened, and which [`operations`] are in flight; [`invariants`]: what must hold
//!   after every step; [`liveness`]: what must happen in time;
//! - [`run`]: one run from its start to its end;
//! - [`mutation`]: ways to break the engine on purpose, each of which must be detected.

mod callers;
mod cancelling;
mod faults;
mod host;
mod invariants;
mod ledger;
mod liveness;
pub(super) mod mutation;
mod operations;
mod policies;
mod random;
mod run;
mod store;
mod watch;
mod world;

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use mutation::Mutation;
use run::run;

const RUNS: u64 = 1500;
/// The number of runs within which a broken engine must be detected.
const RUNS_IF_BROKEN: u64 = 5000;

fn from_environment<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

fn failed(seed: u64, violation: &str) -> ! {
    panic!(
        "seed {seed}, {violation}. To see it again: SYNCGUARD_SIMULATION_SEED={seed} \
         cargo test --no-default-features simulation::replay -- --nocapture"
    )
}

#[test]
fn holds_whatever_goes_wrong() {
    let runs = from_environment("SYNCGUARD_SIMULATION_RUNS").unwrap_or(RUNS);
    let first = from_environment("SYNCGUARD_SIMULATION_SEED").unwrap_or(0);
    let started = Instant::now();
    let next = AtomicU64::new(first);
    let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < first + runs);
    // Runs until the end or the first seed that fails.
    let work = || -> Result<(usize, usize), (u64, String)> {
        let (mut steps, mut grants) = (0, 0);
        while let Some(seed) = take() {
            let summary = run(seed, false).map_err(|violation| (seed, violation))?;
            steps += summary.steps;
            grants += summary.grants;
        }
        Ok((steps, grants))
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let done: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let done = workers.into_iter().map(|worker| worker.join().unwrap());
        done.collect()
    });
    let (mut steps, mut grants) = (0, 0);
    for result in done {
        match result {
            Ok(sums) => (steps, grants) = (steps + sums.0, grants + sums.1),
            Err((seed, violation)) => failed(seed, &violation),
        }
    }
    let took = started.elapsed();
    println!("{runs} runs, {steps} steps, {grants} locks in {took:?}");
    assert!(grants as u64 > runs, "hardly anybody got a lock");
}

#[test]
fn replay() {
    let Some(seed) = from_environment("SYNCGUARD_SIMULATION_SEED") else {
        return;
    };
    let result = run(seed, true);
    println!("{result:?}");
    if let Err(violation) = result {
        failed(seed, &violation);
    }
}

#[test]
fn a_run_can_be_repeated_exactly() {
    for seed in 0..50 {
        assert_eq!(run(seed, false), run(seed, false), "seed {seed}");
    }
}

/// Returns the first seed that shows that the engine is broken.
fn noticed(mutation: Mutation) {
    let _broken = mutation.switch_on();
    let seed = (0..RUNS_IF_BROKEN).find_map(|seed| Some((seed, run(seed, false).err()?)));
    let (seed, violation) = seed.unwrap_or_else(|| panic!("{mutation:?} was not noticed"));
    println!("{mutation:?}: seed {seed}, {violation}");
}

#[test]
fn a_lock_that_counts_from_its_answer_is_noticed() {
    noticed(Mutation::ValidFromAnswer);
}

#[test]
fn an_extension_that_counts_from_its_answer_is_noticed() {
    noticed(Mutation::ExtendedFromAnswer);
}

#[test]
fn a_lock_that_gets_less_time_only_with_the_answer_is_noticed() {
    noticed(Mutation::ShortenedByAnswer);
}

#[test]
fn a_lock_that_a_heartbeat_in_flight_frees_too_early_is_noticed() {
    noticed(Mutation::ShortenedOutOfTurn);
}

#[test]
fn a_shortest_time_that_counts_from_the_request_is_noticed() {
    noticed(Mutation::MinHoldFromRequest);
}

#[test]
fn a_heartbeat_that_follows_the_release_is_noticed() {
    noticed(Mutation::ExtendedAfterEnd);
}

#[test]
fn a_lock_that_is_not_undone_is_noticed() {
    noticed(Mutation::NotUndone);
}

#[test]
fn an_undo_that_looks_only_once_is_noticed() {
    noticed(Mutation::OneLook);
}

#[test]
fn a_release_that_wakes_nobody_is_noticed() {
    noticed(Mutation::NobodyWoken);
}

#[test]
fn an_early_attempt_that_is_not_made_again_is_noticed() {
    noticed(Mutation::AskedOnce);
}

#[test]
fn one_who_leaves_and_does_not_pass_the_turn_on_is_noticed() {
    noticed(Mutation::TurnKept);
}

#[test]
fn waiters_out_of_order_are_noticed() {
    noticed(Mutation::LastComeFirst);
}

#[test]
fn an_attempt_that_outlasts_the_deadline_is_noticed() {
    noticed(Mutation::DeadlineForgotten);
}

#[test]
fn a_close_that_leaves_holds_is_noticed() {
    noticed(Mutation::HoldsLeft);
}

#[test]
fn a_cancelled_call_that_gets_its_lock_is_noticed() {
    noticed(Mutation::CancelForgotten);
}

#[test]
fn more_holders_than_the_limit_are_noticed() {
    noticed(Mutation::LimitIgnored);
}

#[test]
fn a_store_that_ignores_marks_is_noticed() {
    noticed(Mutation::MarkIgnored);
}

#[test]
fn a_writer_that_leaves_no_mark_is_noticed() {
    noticed(Mutation::MarkNotLeft);
}

#[test]
fn a_mark_that_is_not_renewed_is_noticed() {
    noticed(Mutation::MarkNotRenewed);
}

#[test]
fn a_mark_that_outlasts_its_writer_is_noticed() {
    noticed(Mutation::MarkForgotten);
}

#[test]
fn a_release_that_wakes_nobody_who_shares_is_noticed() {
    noticed(Mutation::SharerNotWoken);
}

#[test]
fn one_who_shares_and_does_not_pass_the_turn_on_is_noticed() {
    noticed(Mutation::NextSharerNotWoken);
}

#[test]
fn keys_in_the_order_of_the_caller_are_noticed() {
    noticed(Mutation::KeysUnsorted);
}

#[test]
fn locks_that_are_kept_behind_a_refused_key_are_noticed() {
    noticed(Mutation::BehindKept);
}

#[test]
fn a_set_that_is_left_behind_is_noticed() {
    noticed(Mutation::SetLeft);
}
