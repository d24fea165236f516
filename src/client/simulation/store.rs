//! A store that many machines share, behind lines that lose, delay and reorder requests. The memory
//! backend stores the locks, with a clock that jumps.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::faults::{Fate, Faults};
use super::ledger::{Ledger, short};
use super::mutation::Mutation;
use super::watch::BadWatch;
use super::world::{START, STORE, World};
use crate::backend::memory::MemoryBackend;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, Capabilities, ExtendOutcome, LockRecord, LookupQuery,
    Page, ReleaseOutcome, ReleaseRequest, Watch,
};
use crate::client::host::Moment;
use crate::error::{Error, Result};
use crate::lock::share::UNLIMITED;
use crate::lock::{Access, Key, LockId, Ttl};

/// The first time of the clock, late enough for a jump backwards.
const FIRST_MS: i64 = 1_000_000_000;

pub(super) struct Store {
    pub world: Arc<World>,
    ledger: Arc<Ledger>,
    memory: MemoryBackend,
    clock: Arc<Clock>,
    faults: Mutex<Faults>,
    down_until: Mutex<Moment>,
}

struct Clock {
    world: Arc<World>,
    ahead_ms: AtomicI64,
}

impl Clock {
    fn now_ms(&self) -> u64 {
        let elapsed = self.world.now().since_start().as_millis() as i64;
        (FIRST_MS + elapsed + self.ahead_ms.load(Ordering::Relaxed)) as u64
    }
}

impl Store {
    pub(super) fn new(world: &Arc<World>, ledger: &Arc<Ledger>, faults: Faults) -> Arc<Self> {
        let clock = Arc::new(Clock {
            world: Arc::clone(world),
            ahead_ms: AtomicI64::new(0),
        });
        let told = Arc::clone(&clock);
        Arc::new(Self {
            world: Arc::clone(world),
            ledger: Arc::clone(ledger),
            memory: MemoryBackend::with_clock(move || told.now_ms()),
            clock,
            faults: Mutex::new(faults),
            down_until: Mutex::new(START),
        })
    }

    pub(super) fn faults(&self) -> Faults {
        self.with_faults(|faults| faults.clone())
    }

    fn with_faults<T>(&self, ask: impl FnOnce(&mut Faults) -> T) -> T {
        ask(&mut self.faults.lock())
    }

    /// From now on everything works.
    pub(super) fn end_of_faults(&self) {
        self.with_faults(Faults::end);
        *self.down_until() = START;
    }

    pub(super) fn go_down(&self, duration: Duration) {
        let until = self.world.now() + duration;
        *self.down_until() = until;
    }

    pub(super) fn set_clock_ahead(&self, ms: i64) {
        self.clock.ahead_ms.store(ms, Ordering::Relaxed);
    }

    pub(super) fn down_until(&self) -> MutexGuard<'_, Moment> {
        self.down_until.lock()
    }

    /// Returns all live locks, without a line in between.
    pub(super) fn locks(&self) -> Vec<LockRecord> {
        let page = self.memory.list(None, usize::MAX).now_or_never();
        let page = page.and_then(Result::ok);
        page.map(|page| page.locks).unwrap_or_default()
    }

    /// No other lock lasts longer because this one was extended.
    fn check_extended(&self, lock_id: LockId, before: &[LockRecord]) {
        for lock in self.locks() {
            let old = before.iter().find(|old| old.lock_id == lock.lock_id);
            let is_renewed = old.is_some_and(|old| old.expires_at_ms != lock.expires_at_ms);
            if is_renewed && lock.lock_id != lock_id {
                let id = short(lock.lock_id);
                self.ledger
                    .violated(&format!("{id} was extended by another"));
            }
        }
    }

    /// Returns the live locks of this key.
    pub(super) fn locks_of(&self, key: &Key) -> Vec<LockRecord> {
        let mut locks = self.locks();
        locks.retain(|lock| lock.key == key.as_str());
        locks
    }
}

/// Returns the access that the store grants: what was asked for, unless the store is broken.
fn limited(access: Access) -> Access {
    let limit = UNLIMITED;
    let is_broken = access.is_shared() && Mutation::LimitIgnored.is_on();
    if is_broken {
        Access::Shared { limit }
    } else {
        access
    }
}

/// The line from one machine to the store.
pub(super) struct Line {
    store: Arc<Store>,
    machine: usize,
    is_closed: AtomicBool,
}

impl Line {
    pub(super) fn new(store: &Arc<Store>, machine: usize) -> Self {
        Self {
            store: Arc::clone(store),
            machine,
            is_closed: AtomicBool::new(false),
        }
    }

    /// Sends a request; `effect` is what it does in the store.
    async fn ask<T: Send + 'static>(
        &self,
        may_stray: bool,
        effect: impl FnOnce(&Store) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = Arc::clone(&self.store);
        let world = Arc::clone(&store.world);
        if self.is_closed.load(Ordering::Relaxed) {
            store.ledger.violated("an operation after the end");
        }
        let is_down = world.now() < *store.down_until();
        let faults = store.faults();
        let fate = world.draw(|random| faults.fate(random, is_down, may_stray));
        let (answer, answered) = oneshot::channel();
        let lost = || Err(Error::timeout("lost").outcome_unknown());
        let on_its_way = Arc::clone(&world);
        let task = async move {
            let pause = |duration| on_its_way.sleep(STORE, duration);
            // The asking task may be gone. Then nobody reads the answer.
            let _ = match fate {
                Fate::Answered { there, back } => {
                    pause(there).await;
                    let result = effect(&store);
                    pause(back).await;
                    answer.send(result)
                }
                Fate::Refused { after } => {
                    pause(after).await;
                    answer.send(Err(Error::unavailable("refused")))
                }
                Fate::LostBefore { after } => {
                    pause(after).await;
                    answer.send(lost())
                }
                Fate::LostAfter { there, after } => {
                    pause(there).await;
                    let _ = effect(&store);
                    pause(after).await;
                    answer.send(lost())
                }
                Fate::Stray { after, there } => {
                    pause(after).await;
                    let sent = answer.send(lost());
                    pause(there - after).await;
                    let _ = effect(&store);
                    sent
                }
            };
        };
        world.spawn(STORE, Box::pin(task));
        answered.await.unwrap_or_else(|_| lost())
    }
}

/// The memory backend answers at once.
fn at_once<T>(answer: impl Future<Output = Result<T>>) -> Result<T> {
    let answer = answer.now_or_never();
    answer.unwrap_or_else(|| Err(Error::internal("the memory backend had to wait")))
}

#[async_trait]
impl Backend for Line {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            keeps_order: self.store.with_faults(|faults| faults.seems_to_keep_order),
            supports_sharing: true,
            ..Capabilities::default()
        }
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let (request, machine) = (request.clone(), self.machine);
        self.ask(true, move |store| {
            let asked = AcquireRequest {
                access: limited(request.access),
                mark: request.mark.filter(|_| !Mutation::MarkIgnored.is_on()),
                ..request.clone()
            };
            Ok(match at_once(store.memory.acquire(&asked))? {
                AcquireOutcome::Acquired {
                    fence,
                    expires_at_ms,
                    share,
                } => {
                    store.ledger.stored(&request, fence, machine);
                    AcquireOutcome::Acquired {
                        fence,
                        expires_at_ms,
                        share,
                    }
                }
                AcquireOutcome::Locked(holder) => {
                    let is_shared = holder.as_ref().is_some_and(|holder| holder.is_shared);
                    if let Some(mark) = request.mark.filter(|_| is_shared) {
                        store.ledger.marked(request.key.as_str(), mark, machine);
                    }
                    let tells = is_shared || store.with_faults(|faults| faults.tells_holder);
                    AcquireOutcome::Locked(holder.filter(|_| tells))
                }
            })
        })
        .await
    }

    async fn unmark(&self, key: &Key, mark: LockId) -> Result<()> {
        let (key, machine) = (key.clone(), self.machine);
        self.ask(true, move |store| {
            at_once(store.memory.unmark(&key, mark))?;
            store.ledger.unmarked(key.as_str(), mark, machine);
            Ok(())
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseOutcome> {
        let (lock_id, machine) = (request.lock_id, self.machine);
        self.ask(true, move |store| {
            let query = LookupQuery::LockId(lock_id);
            let lock = at_once(store.memory.lookup(&query))?;
            let outcome = at_once(store.memory.release(lock_id.into()))?;
            if let Some(lock) = lock {
                store.ledger.released(&lock.key, lock_id, machine);
            }
            Ok(outcome)
        })
        .await
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        // A failed extend that arrives after the next one, and shortens its time, is not simulated.
        self.ask(false, move |store| {
            let before = store.locks();
            let outcome = at_once(store.memory.extend(lock_id, ttl))?;
            if let ExtendOutcome::Extended { .. } = outcome {
                store.ledger.prolonged(lock_id, ttl);
            }
            store.check_extended(lock_id, &before);
            Ok(outcome)
        })
        .await
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        let key = key.clone();
        self.ask(false, move |store| Ok(!store.locks_of(&key).is_empty()))
            .await
    }

    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        let query = query.clone();
        self.ask(false, move |store| at_once(store.memory.lookup(&query)))
            .await
    }

    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        let after = after.map(str::to_owned);
        self.ask(false, move |store| {
            at_once(store.memory.list(after.as_deref(), limit))
        })
        .await
    }

    async fn force_release(&self, key: &Key) -> Result<bool> {
        let (key, machine) = (key.clone(), self.machine);
        self.ask(true, move |store| {
            let before = store.locks_of(&key);
            let released = at_once(store.memory.force_release(&key))?;
            // Whoever waits to write leaves its mark anew.
            store.ledger.all_unmarked(key.as_str(), machine);
            for lock in before.iter().filter(|_| released) {
                store.ledger.taken_away(lock.lock_id);
                store.ledger.released(&lock.key, lock.lock_id, machine);
            }
            Ok(released)
        })
        .await
    }

    fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        if !self.store.with_faults(|faults| faults.watches) {
            return None;
        }
        let watch = self.store.memory.watch(key)?;
        Some(Box::new(BadWatch::new(&self.store, self.machine, watch)))
    }

    async fn close(&self) {
        if self.is_closed.swap(true, Ordering::Relaxed) {
            self.store.ledger.violated("closed twice");
        }
    }
}
