//! A lock that somebody holds: until when it is surely his, and how it ends.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Notify, SetOnce};

use super::host::Moment;
#[cfg(test)]
use super::simulation::mutation::Mutation;
use super::wait::Progress;
use super::{Client, Grant};
use crate::backend::{ExtendOutcome, Miss, ReleaseOutcome};
use crate::error::{Error, ErrorCode, Result};
use crate::lock::{Fence, Key, LockId, Ttl};
use crate::map::FastMap;

/// How a lock is to be held.
#[derive(Debug, Clone, Copy)]
pub struct HoldPolicy {
    pub ttl: Ttl,
    /// Extend it for as long as it is held.
    pub auto_extend: bool,
    /// Give it up after so long.
    pub longest: Option<Duration>,
    /// Do not give it back before.
    pub shortest: Option<Duration>,
}

impl From<Ttl> for HoldPolicy {
    fn from(ttl: Ttl) -> Self {
        Self {
            ttl,
            auto_extend: false,
            longest: None,
            shortest: None,
        }
    }
}

/// What becomes of a hold while it lasts.
pub enum HoldEvent<'a> {
    /// A heartbeat came through, or failed.
    Beat(Result<(), &'a Error>),
    /// It is not surely ours any more. The last event.
    Lost(&'a Error),
}

pub type Listener = Box<dyn Fn(HoldEvent<'_>) + Send + Sync>;

pub struct Hold {
    pub key: Key,
    pub lock_id: LockId,
    pub fence: Fence,
    /// How the wait for it went; it may have to go on.
    pub progress: Progress,
    /// How long it took to get it.
    pub waited: Duration,
    pub(super) policy: HoldPolicy,
    pub(super) granted_at: Moment,
    expires_at_ms: AtomicU64,
    /// Nanoseconds of a [`Moment`].
    valid_until: AtomicU64,
    longest_ttl_ms: AtomicU64,
    lost: OnceLock<Error>,
    listener: OnceLock<Listener>,
    pub(super) extending: tokio::sync::Mutex<()>,
    /// Its deadline comes sooner than it did.
    pub(super) shortened: Notify,
    /// Somebody waits for its deadline.
    pub(super) kept: AtomicBool,
    /// Somebody else than its holder has ended it.
    pub(super) given_up: AtomicBool,
    pub(super) ended: SetOnce<()>,
}

impl Hold {
    pub(super) fn new(
        key: Key,
        grant: &Grant,
        policy: HoldPolicy,
        progress: Progress,
        now: Moment,
    ) -> Self {
        Self {
            key,
            waited: progress.waited(now),
            lock_id: grant.lock_id,
            fence: grant.fence,
            progress,
            policy,
            granted_at: grant.granted_at,
            expires_at_ms: AtomicU64::new(grant.expires_at_ms),
            valid_until: AtomicU64::new(nanoseconds(grant.valid_until)),
            longest_ttl_ms: AtomicU64::new(policy.ttl.ms()),
            lost: OnceLock::new(),
            listener: OnceLock::new(),
            extending: tokio::sync::Mutex::new(()),
            shortened: Notify::new(),
            kept: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
            ended: SetOnce::new(),
        }
    }

    /// The latest expiry that is known.
    pub fn expires_at_ms(&self) -> u64 {
        self.expires_at_ms.load(Ordering::Relaxed)
    }

    pub(super) fn valid_until(&self) -> Moment {
        Moment::after_start(Duration::from_nanos(
            self.valid_until.load(Ordering::Acquire),
        ))
    }

    pub(super) fn extended(&self, expires_at_ms: u64, valid_until: Moment) {
        self.expires_at_ms.store(expires_at_ms, Ordering::Relaxed);
        let until = nanoseconds(valid_until);
        if until < self.valid_until.swap(until, Ordering::AcqRel) {
            self.shortened.notify_one();
        }
    }

    /// It is about to get more time, or less: the answer could come too late, or never.
    pub(super) fn asks_for(&self, ttl: Ttl, valid_until: Moment) {
        self.longest_ttl_ms.fetch_max(ttl.ms(), Ordering::AcqRel);
        #[cfg(test)]
        if Mutation::ShortenedByAnswer.is_on() {
            return;
        }
        let until = nanoseconds(valid_until);
        if until < self.valid_until.fetch_min(until, Ordering::AcqRel) {
            self.shortened.notify_one();
        }
    }

    /// The store has it for so long from now on, at most.
    pub(super) fn longest_ttl(&self) -> Ttl {
        let ms = self.longest_ttl_ms.load(Ordering::Acquire);
        Ttl::rounded_up(Duration::from_millis(ms)).unwrap_or(self.policy.ttl)
    }

    /// For how long it is still surely ours; nothing when it is not.
    pub(super) fn held_for(&self, now: Moment) -> Option<Duration> {
        let left = self.valid_until().since(now);
        (self.lost.get().is_none() && !left.is_zero()).then_some(left)
    }

    fn end(&self) {
        // It may have been before.
        let _ = self.ended.set(());
    }

    /// From now on it counts as lost. Only the first reason is kept.
    pub(super) fn lose(&self, error: Error) {
        if self.lost.set(error).is_ok()
            && let (Some(listener), Some(error)) = (self.listener.get(), self.lost.get())
        {
            listener(HoldEvent::Lost(error));
        }
    }

    /// The store has it no more.
    pub(super) fn taken_away(&self) {
        if !self.ended.initialized() {
            self.lose(taken_away());
        }
    }

    pub(super) fn beat(&self, outcome: Result<(), &Error>) {
        if let Some(listener) = self.listener.get() {
            listener(HoldEvent::Beat(outcome));
        }
    }
}

fn nanoseconds(moment: Moment) -> u64 {
    u64::try_from(moment.since_start().as_nanos()).unwrap_or(u64::MAX)
}

/// The holds of a client, until they end.
#[derive(Default)]
pub(super) struct Holds {
    held: Mutex<FastMap<LockId, Arc<Hold>>>,
    changed: Notify,
}

impl Holds {
    pub fn insert(&self, hold: Arc<Hold>) {
        self.lock().insert(hold.lock_id, hold);
    }

    pub fn get(&self, lock_id: LockId) -> Option<Arc<Hold>> {
        self.lock().get(&lock_id).cloned()
    }

    pub fn remove(&self, lock_id: LockId) {
        let mut held = self.lock();
        held.remove(&lock_id);
        if held.is_empty() {
            self.changed.notify_waiters();
        }
    }

    pub fn of(&self, key: &Key) -> Vec<Arc<Hold>> {
        let mut held = self.all();
        held.retain(|hold| hold.key == *key);
        held
    }

    fn any(&self, matches: impl Fn(&Hold) -> bool) -> bool {
        self.lock().values().any(|hold| matches(hold))
    }

    pub fn all(&self) -> Vec<Arc<Hold>> {
        self.lock().values().cloned().collect()
    }

    pub async fn until_empty(&self) {
        loop {
            let changed = self.changed.notified();
            if self.lock().is_empty() {
                return;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, FastMap<LockId, Arc<Hold>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// For how long the lock is still surely held; nothing when it is not.
    pub fn held_for(&self, hold: &Hold) -> Option<Duration> {
        hold.held_for(self.host.now())
    }

    /// Whether a hold of this client has had the key all the time since then.
    pub(super) fn holds_since(&self, key: &Key, then: Moment) -> bool {
        let now = self.host.now();
        self.holds.any(|hold| {
            hold.key == *key
                && hold.granted_at <= then
                && !hold.ended.initialized()
                && hold.held_for(now).is_some()
        })
    }

    /// Why the lock is not surely held any more, if it is not.
    pub fn lost(&self, hold: &Hold) -> Option<Error> {
        if self.held_for(hold).is_none() {
            hold.lose(time_is_over());
        }
        hold.lost.get().cloned()
    }

    /// `listener` is told what becomes of the hold from now on. What has already: see [`lost`](Self::lost).
    pub fn listen(self: &Arc<Self>, hold: &Arc<Hold>, listener: Listener) {
        if hold.listener.set(listener).is_ok() {
            self.keep(hold);
        }
    }

    /// Gives the lock back; or, when it is too early for that, leaves it the rest of its time.
    pub async fn end(self: Arc<Self>, hold: Arc<Hold>) -> Result<ReleaseOutcome> {
        hold.end();
        let outcome = self.give_back(&hold).await;
        self.holds.remove(hold.lock_id);
        outcome
    }

    /// Nobody ever used it: gives it back, whatever that takes. See [`Client::undo`] for the end of it.
    pub fn abandon(self: &Arc<Self>, hold: &Hold) -> BoxFuture<'static, ()> {
        hold.end();
        self.holds.remove(hold.lock_id);
        self.undo(hold.lock_id, &hold.key, hold.longest_ttl())
    }

    async fn give_back(&self, hold: &Hold) -> Result<ReleaseOutcome> {
        if hold.given_up.load(Ordering::Acquire) {
            return Ok(ReleaseOutcome::Missed(Miss::NotFound));
        }
        let rest = hold.policy.shortest.and_then(|shortest| {
            let rest = (hold.granted_at + shortest).since(self.host.now());
            Ttl::rounded_up(rest)
        });
        if let Some(rest) = rest {
            return Ok(match self.backend.extend(hold.lock_id, rest).await? {
                ExtendOutcome::Extended { .. } => ReleaseOutcome::Released,
                ExtendOutcome::Missed(miss) => ReleaseOutcome::Missed(miss),
            });
        }
        self.pass_on(hold.lock_id, &hold.key).await
    }

    /// Releases the lock, for the first who waits for it here.
    pub(super) async fn pass_on(&self, lock_id: LockId, key: &Key) -> Result<ReleaseOutcome> {
        let mut releasing = self.backend.release_of(lock_id, key);
        // Where order is kept, the attempt follows on the heels of the release, and not a round trip
        // later. If it was refused all the same, the answer to the release makes another.
        let mut asks_early = self.backend.keeps_order();
        let mut asked = None;
        let outcome = poll_fn(|context| {
            let polled = releasing.as_mut().poll(context);
            if polled.is_pending() && std::mem::take(&mut asks_early) {
                asked = self.queues.released(key);
            }
            polled
        })
        .await?;
        self.queues.surely_released(key, asked);
        Ok(outcome)
    }

    /// Takes the lock away from its holder, who learns why. It is released in the background.
    pub(super) fn give_up(self: &Arc<Self>, hold: &Hold, why: Error) {
        hold.lose(why);
        if !hold.given_up.swap(true, Ordering::AcqRel) {
            self.disown(hold.lock_id, &hold.key, hold.longest_ttl());
        }
    }
}

pub(super) fn lost(message: &str) -> Error {
    Error::new(ErrorCode::LockLost, message)
}

pub(super) fn taken_away() -> Error {
    lost("The lock was lost: it had expired or was released elsewhere")
}

pub(super) fn time_is_over() -> Error {
    lost(
        "The lock's time passed while it was still needed: others may hold it now. \
         Use a longer ttlMs, or autoExtend",
    )
}
