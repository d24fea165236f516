//! Machines, their tasks and their time. One thread runs all of it, and only chance decides who is
//! next; time passes when nobody has anything to do.

use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::random::Random;
use crate::client::host::Moment;

/// Where the store and the network are. It is never suspended and never dies.
pub(super) const STORE: usize = 0;

pub(super) const START: Moment = Moment::after_start(Duration::ZERO);

pub(super) struct World {
    this: Weak<World>,
    state: Mutex<State>,
}

struct State {
    now: Moment,
    random: Random,
    tasks: Vec<Task>,
    ready: Vec<usize>,
    timers: Vec<Timer>,
    unused_timers: Vec<usize>,
    due: BinaryHeap<Reverse<Due>>,
    machines: Vec<Machine>,
    /// Of everything that happened, and in which order.
    digest: u64,
}

struct Task {
    machine: usize,
    future: Option<BoxFuture<'static, ()>>,
    waker: Waker,
    is_ready: bool,
}

#[derive(Default)]
struct Timer {
    machine: usize,
    set_at: Option<Moment>,
    waker: Option<Waker>,
    /// How often this place was used: what is due for an earlier use is not for this one.
    uses: u64,
}

/// When, the how-manieth, which timer, in which use.
type Due = (Moment, u64, usize, u64);

#[derive(Clone, Copy)]
struct Machine {
    is_dead: bool,
    suspended_at: Moment,
    awake_at: Moment,
    /// Timers that were set before the machine slept do not run out earlier.
    timers_at: Moment,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Ran,
    Waited,
    /// Nothing will ever happen again.
    Still,
}

impl World {
    pub(super) fn new(random: Random, machines: usize) -> Arc<Self> {
        let machine = Machine {
            is_dead: false,
            suspended_at: START,
            awake_at: START,
            timers_at: START,
        };
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            state: Mutex::new(State {
                now: START,
                random,
                tasks: Vec::new(),
                ready: Vec::new(),
                timers: Vec::new(),
                unused_timers: Vec::new(),
                due: BinaryHeap::new(),
                machines: vec![machine; machines + 1],
                digest: 0,
            }),
        })
    }

    pub(super) fn now(&self) -> Moment {
        self.state.lock().now
    }

    pub(super) fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.state.lock().random)
    }

    pub(super) fn digest(&self) -> u64 {
        self.state.lock().digest
    }

    pub(super) fn is_dead(&self, machine: usize) -> bool {
        self.state.lock().machines[machine].is_dead
    }

    /// From when on everything on this machine is on time.
    pub(super) fn on_time_from(&self, machine: usize) -> Moment {
        let machine = self.state.lock().machines[machine];
        machine.awake_at.max(machine.timers_at)
    }

    /// The program there ends without a word.
    pub(super) fn kill(&self, machine: usize) {
        self.state.lock().machines[machine].is_dead = true;
    }

    /// Suspends the machine: only its clock continues. Its timers may resume a little later than the
    /// machine.
    pub(super) fn suspend(&self, machine: usize, duration: Duration, lag: Duration) {
        let mut state = self.state.lock();
        let now = state.now;
        let machine = &mut state.machines[machine];
        machine.suspended_at = now;
        machine.awake_at = now + duration;
        machine.timers_at = now + duration + lag;
        let awake_at = machine.awake_at;
        // Somebody has to find out that it is awake.
        state.set_timer(STORE, awake_at, None);
    }

    pub(super) fn spawn(&self, machine: usize, task: BoxFuture<'static, ()>) {
        let mut state = self.state.lock();
        let id = state.tasks.len();
        let waker = Waker::from(Arc::new(Wakes {
            world: Weak::clone(&self.this),
            task: id,
        }));
        state.tasks.push(Task {
            machine,
            future: Some(task),
            waker,
            is_ready: true,
        });
        state.ready.push(id);
    }

    pub(super) fn sleep_until(&self, machine: usize, until: Moment) -> Sleep {
        Sleep {
            world: Weak::clone(&self.this),
            machine,
            until,
            timer: None,
        }
    }

    pub(super) fn sleep(&self, machine: usize, duration: Duration) -> Sleep {
        self.sleep_until(machine, self.now() + duration)
    }

    /// Runs one task, or lets time pass until one can run.
    pub(super) fn step(&self) -> Step {
        let mut state = self.state.lock();
        let Some(id) = state.next_task() else {
            return match state.next_timer() {
                Some(wakers) => {
                    drop(state);
                    wakers.into_iter().for_each(Waker::wake);
                    Step::Waited
                }
                None => Step::Still,
            };
        };
        let now = state.now.since_start().as_nanos() as u64;
        state.digest = Random::new(state.digest ^ now ^ ((id as u64) << 48)).next();
        let task = &mut state.tasks[id];
        task.is_ready = false;
        let waker = task.waker.clone();
        let Some(mut future) = task.future.take() else {
            return Step::Ran;
        };
        drop(state);
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => drop(future),
            Poll::Pending => self.state.lock().tasks[id].future = Some(future),
        }
        Step::Ran
    }

    /// Tasks know the world: without this neither would ever be freed.
    pub(super) fn end(&self) {
        let tasks = std::mem::take(&mut self.state.lock().tasks);
        drop(tasks);
    }
}

impl State {
    fn next_task(&mut self) -> Option<usize> {
        let now = self.now;
        let can_run = |state: &Self, at: usize| {
            let machine = state.machines[state.tasks[state.ready[at]].machine];
            !machine.is_dead && now >= machine.awake_at
        };
        let count = self.ready.len();
        if count == 0 {
            return None;
        }
        let first = self.random.below(count);
        let at = (0..count)
            .map(|offset| (first + offset) % count)
            .find(|at| can_run(self, *at))?;
        Some(self.ready.swap_remove(at))
    }

    /// Those who are to be woken now.
    fn next_timer(&mut self) -> Option<Option<Waker>> {
        while let Some(Reverse((moment, number, timer, uses))) = self.due.pop() {
            let place = &mut self.timers[timer];
            if place.uses != uses {
                continue;
            }
            let machine = self.machines[place.machine];
            let stood_still = place.set_at.is_some_and(|at| at <= machine.suspended_at);
            if stood_still && moment < machine.timers_at {
                self.due
                    .push(Reverse((machine.timers_at, number, timer, uses)));
                continue;
            }
            self.now = self.now.max(moment);
            let waker = place.waker.take();
            if place.set_at.is_none() {
                place.uses += 1;
                self.unused_timers.push(timer);
            }
            return Some(waker);
        }
        None
    }

    fn set_timer(&mut self, machine: usize, until: Moment, waker: Option<Waker>) -> usize {
        let timer = self.unused_timers.pop().unwrap_or_else(|| {
            self.timers.push(Timer::default());
            self.timers.len() - 1
        });
        let number = self.random.next();
        let now = self.now;
        let place = &mut self.timers[timer];
        place.machine = machine;
        place.set_at = waker.is_some().then_some(now);
        place.waker = waker;
        self.due.push(Reverse((until, number, timer, place.uses)));
        timer
    }
}

struct Wakes {
    world: Weak<World>,
    task: usize,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let Some(world) = self.world.upgrade() else {
            return;
        };
        let mut state = world.state.lock();
        let id = self.task;
        if let Some(task) = state.tasks.get_mut(id)
            && !std::mem::replace(&mut task.is_ready, true)
        {
            state.ready.push(id);
        }
    }
}

pub(super) struct Sleep {
    world: Weak<World>,
    machine: usize,
    until: Moment,
    timer: Option<usize>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(world) = self.world.upgrade() else {
            return Poll::Pending;
        };
        let mut state = world.state.lock();
        if state.now >= self.until {
            return Poll::Ready(());
        }
        match self.timer {
            Some(timer) => {
                let place = &mut state.timers[timer];
                place.waker = Some(context.waker().clone());
            }
            None => {
                let waker = context.waker().clone();
                let timer = state.set_timer(self.machine, self.until, Some(waker));
                drop(state);
                self.timer = Some(timer);
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        // Nobody is woken for it any more: that could hide a wake-up that was forgotten.
        if let (Some(timer), Some(world)) = (self.timer, self.world.upgrade()) {
            let mut state = world.state.lock();
            let place = &mut state.timers[timer];
            place.uses += 1;
            let waker = place.waker.take();
            state.unused_timers.push(timer);
            drop(state);
            drop(waker);
        }
    }
}
