//! One run: machines, callers and faults, all drawn from a seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::callers::{Caller, PATIENCE};
use super::faults::{Faults, SAFE_JUMP_MS};
use super::host::SimulatedHost;
use super::ledger::Ledger;
use super::operations::{Asked, Keys, Kind};
use super::policies::Usage;
use super::random::Random;
use super::store::{Line, Store};
use super::world::{STORE, Step, World};
use crate::client::Client;
use crate::lock::{Access, Key};

/// The number of steps after which a run must be in an endless loop.
const MOST_STEPS: usize = 200_000;
/// The simulated time after which a run must be stuck.
const LONGEST: Duration = Duration::from_secs(1800);
/// The time until everything is undone once everything works.
const SETTLED: Duration = Duration::from_secs(15);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Summary {
    pub digest: u64,
    pub steps: usize,
    pub grants: usize,
}

struct Run {
    world: Arc<World>,
    ledger: Arc<Ledger>,
    store: Arc<Store>,
    /// The first machine is the store's, so these count from 1.
    clients: Vec<Arc<Client>>,
    callers_left: Arc<Vec<AtomicUsize>>,
    usage: Usage,
    sets_percent: u64,
    random: Random,
    steps: usize,
}

/// Returns what was violated as the error.
pub(super) fn run(seed: u64, traced: bool) -> Result<Summary, String> {
    let mut run = Run::new(seed, traced);
    let result = run.play();
    run.world.end();
    result
}

impl Run {
    fn new(seed: u64, traced: bool) -> Self {
        let mut random = Random::new(seed);
        let faults = Faults::draw(&mut random);
        let machines = 1 + random.below(3);
        let usage = Usage::draw(&mut random);
        let sets_percent = random.pick(&[0, 10, 100]);
        let names = ["one", "two", "three"];
        let keys = random.pick(&[1, 1, 1, 2, 3]);
        let keys = names[..keys].iter().map(|name| Key::new(name).unwrap());
        let world = World::new(random.fork(), machines);
        let ledger = Ledger::new(&world, keys.collect(), faults.clone(), traced);
        let ledger = Arc::new(ledger);
        ledger.trace(|| format!("{machines} machines, {usage:?}, {faults:?}"));
        let store = Store::new(&world, &ledger, faults);
        let clients = (1..=machines).map(|machine| {
            let host = SimulatedHost {
                world: Arc::clone(&world),
                machine,
                ahead: random.ms(0..1_000_000),
            };
            Client::new(Arc::new(Line::new(&store, machine)), Arc::new(host))
        });
        Self {
            clients: clients.collect(),
            callers_left: Arc::new((0..=machines).map(|_| AtomicUsize::new(0)).collect()),
            world,
            ledger,
            store,
            usage,
            sets_percent,
            random,
            steps: 0,
        }
    }

    fn play(&mut self) -> Result<Summary, String> {
        // Sometimes there are many of them.
        let most = self.random.pick(&[4, 4, 4, 4, 12]);
        for machine in 1..=self.clients.len() {
            for _ in 0..=self.random.below(most) {
                self.start_caller(machine);
            }
        }
        let is_calm = self.store.faults().calm;
        for _ in 0..self.random.below(5) {
            if !is_calm {
                self.plan_trouble();
            }
        }
        if self.random.chance(20) {
            let machine = 1 + self.random.below(self.clients.len());
            let after = self.random.ms(0..6000);
            self.close(machine, after);
        }
        self.until(|run| run.callers_are_done() && run.ledger.operations_left() == 0)?;

        self.store.end_of_faults();
        let settled = self.world.now() + SETTLED;
        let sleep = self.world.sleep_until(STORE, settled);
        self.world.spawn(STORE, Box::pin(sleep));
        self.until(|run| run.world.now() >= settled && run.ledger.operations_left() == 0)?;
        self.check_nothing_left()?;

        let machines = 1..=self.clients.len();
        for machine in machines.clone() {
            if !self.is_over(machine) {
                self.close(machine, Duration::ZERO);
            }
        }
        self.until(|run| {
            let are_over = machines.clone().all(|machine| run.is_over(machine));
            are_over && run.ledger.operations_left() == 0
        })?;
        self.check_nothing_left()?;
        Ok(Summary {
            digest: self.world.digest(),
            steps: self.steps,
            grants: self.ledger.grants(),
        })
    }

    fn start_caller(&mut self, machine: usize) {
        let caller = Caller {
            machine,
            client: Arc::clone(&self.clients[machine - 1]),
            ledger: Arc::clone(&self.ledger),
            usage: self.usage,
            sets_percent: self.sets_percent,
            random: self.random.fork(),
            longest_operation: self.store.faults().longest_operation(),
        };
        self.callers_left[machine].fetch_add(1, Ordering::Relaxed);
        let left = Arc::clone(&self.callers_left);
        let task = async move {
            caller.run().await;
            left[machine].fetch_sub(1, Ordering::Relaxed);
        };
        self.world.spawn(machine, Box::pin(task));
    }

    fn callers_are_done(&self) -> bool {
        (1..=self.clients.len()).all(|machine| {
            self.world.is_dead(machine) || self.callers_left[machine].load(Ordering::Relaxed) == 0
        })
    }

    /// Whether it is dead, closed or about to be.
    fn is_over(&self, machine: usize) -> bool {
        self.world.is_dead(machine) || self.ledger.is_closing(machine)
    }

    fn plan_trouble(&mut self) {
        let mut random = self.random.fork();
        let machine = 1 + random.below(self.clients.len());
        let (world, ledger, store) = (
            Arc::clone(&self.world),
            Arc::clone(&self.ledger),
            Arc::clone(&self.store),
        );
        let task = async move {
            world.sleep(STORE, random.ms(0..8000)).await;
            if store.faults().over {
                return;
            }
            match random.below(8) {
                0..=1 => {
                    let duration = random.ms(50..6000);
                    ledger.trace(|| format!("the store is down for {duration:?}"));
                    store.go_down(duration);
                }
                2..=4 if world.now() >= world.on_time_from(machine) => {
                    let duration = random.ms(100..6000);
                    let lag = random.ms(0..1000);
                    ledger.suspended(machine, duration, lag);
                    world.suspend(machine, duration, lag);
                }
                5 => {
                    world.kill(machine);
                    ledger.killed(machine);
                }
                _ => {
                    let ahead = (random.next() % SAFE_JUMP_MS.unsigned_abs()) as i64;
                    let far = (random.next() % 40_000) as i64 - 20_000;
                    let is_wild = store.faults().wild_clock;
                    let ahead = if is_wild { far } else { ahead };
                    ledger.trace(|| format!("the store's clock is {ahead} ms ahead"));
                    store.set_clock_ahead(ahead);
                }
            }
        };
        self.world.spawn(STORE, Box::pin(task));
    }

    fn close(&mut self, machine: usize, after: Duration) {
        let (world, ledger) = (Arc::clone(&self.world), Arc::clone(&self.ledger));
        let client = Arc::clone(&self.clients[machine - 1]);
        let timeout = self.random.ms(0..2000);
        let task = async move {
            world.sleep(machine, after).await;
            let started = world.now();
            let asked = Asked {
                machine,
                keys: Keys::default(),
                access: Access::Exclusive,
                kind: Kind::Close,
                lock_id: None,
            };
            let id = ledger.begin(asked, Some(timeout + PATIENCE));
            ledger.closing(machine);
            client.close(timeout).await;
            ledger.finish(id, "closed");
            if world.now() >= started + PATIENCE {
                ledger.excuse_machine(machine);
            }
            ledger.check_closed(machine);
        };
        self.world.spawn(machine, Box::pin(task));
    }

    fn check_nothing_left(&self) -> Result<(), String> {
        if !self.store.faults().wild_clock {
            self.ledger.check_nothing_left(&self.store);
        }
        let is_alive = |machine: &usize| !self.world.is_dead(*machine);
        for machine in (1..=self.clients.len()).filter(is_alive) {
            if self.clients[machine - 1].queues.len() > 0 {
                self.ledger.violated("somebody is still in a queue");
            }
        }
        self.ledger.violation().map_or(Ok(()), Err)
    }

    fn until(&mut self, is_done: impl Fn(&Self) -> bool) -> Result<(), String> {
        while !is_done(self) {
            if self.world.step() == Step::Still {
                self.ledger.violated("it never ends");
            }
            self.steps += 1;
            if self.steps > MOST_STEPS {
                self.ledger.violated("it goes round in circles");
            }
            if self.world.now().since_start() > LONGEST {
                self.ledger.violated("it takes for ever");
            }
            self.ledger.check(&self.store);
            if let Some(violation) = self.ledger.violation() {
                return Err(violation);
            }
        }
        Ok(())
    }
}
