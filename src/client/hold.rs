//! A lock that a caller holds, and the time until which it is certainly held.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, SetOnce};

use super::host::Moment;
#[cfg(test)]
use super::simulation::mutation::Mutation;
use super::wait::Progress;
use super::{Client, Grant, LockRequest};
use crate::error::{Error, ErrorCode, Result};
use crate::lock::{Access, Fence, Key, LockId, Share, Ttl};

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldPolicy {
    pub ttl: Ttl,
    /// Whether heartbeats extend the lock for as long as it is held.
    pub auto_extend: bool,
    /// The lock is given up after this time (`maxHoldMs`).
    pub max_hold: Option<Duration>,
    /// The lock is held at least this long (`minHoldMs`). If it is released earlier, it expires at the
    /// end of this time.
    pub min_hold: Option<Duration>,
}

impl From<Ttl> for HoldPolicy {
    fn from(ttl: Ttl) -> Self {
        Self {
            ttl,
            auto_extend: false,
            max_hold: None,
            min_hold: None,
        }
    }
}

/// What happens to a hold while it lasts.
pub enum HoldEvent<'a> {
    /// A heartbeat succeeded or failed.
    Heartbeat(Result<(), &'a Error>),
    /// The lock is not certainly ours any more. This is the last event.
    Lost(&'a Error),
}

/// How long a lock must still last when it reaches its caller. If the TTL is short, the TTL divided by
/// [`MIN_LEFT_DIVISOR`] is enough.
const MIN_LEFT: Duration = Duration::from_millis(10);
const MIN_LEFT_DIVISOR: u32 = 20;

pub type Listener = Box<dyn Fn(HoldEvent<'_>) + Send + Sync>;

pub struct Hold {
    pub key: Key,
    pub lock_id: LockId,
    pub fence: Fence,
    /// None if the lock is exclusive.
    pub share: Option<Share>,
    pub(super) access: Access,
    /// The state of the wait that acquired it. [`Client::hold_again`] continues it.
    pub progress: Progress,
    /// How long the wait took.
    pub waited: Duration,
    pub(super) policy: HoldPolicy,
    pub(super) granted_at: Moment,
    /// The moment before which a release leaves the lock to expire.
    pub(super) min_hold_until: Option<Moment>,
    /// When the first heartbeat is due, or the lock is to be given up.
    pub(super) first_due: Moment,
    expires_at_ms: AtomicU64,
    /// A [`Moment`] in nanoseconds.
    valid_until: AtomicU64,
    longest_ttl_ms: AtomicU64,
    lost: OnceLock<Error>,
    listener: OnceLock<Listener>,
    pub(super) extending: tokio::sync::Mutex<()>,
    /// Notified when the deadline moves earlier.
    pub(super) shortened: Notify,
    /// Whether the hold has its task: see [`Client::keep`].
    pub(super) is_kept: AtomicBool,
    /// Whether the lock was released by the engine and not by its holder.
    pub(super) is_revoked: AtomicBool,
    pub(super) ended: SetOnce<()>,
}

impl Hold {
    pub(super) fn new(
        lock: &LockRequest,
        grant: &Grant,
        policy: HoldPolicy,
        progress: Progress,
        now: Moment,
    ) -> Self {
        let left = grant.valid_until.since(now);
        let first_heartbeat = now + heartbeat_interval(policy).min(left / 2);
        Self {
            key: lock.key.clone(),
            access: lock.access,
            share: grant.share,
            first_due: match policy.max_hold {
                Some(max_hold) if policy.auto_extend => {
                    first_heartbeat.min(grant.granted_at + max_hold)
                }
                Some(max_hold) => grant.granted_at + max_hold,
                None => first_heartbeat,
            },
            waited: progress.waited(now),
            lock_id: grant.lock_id,
            fence: grant.fence,
            progress,
            policy,
            granted_at: grant.granted_at,
            // Counts from the answer, because the lock may have been granted only just before it.
            min_hold_until: policy.min_hold.map(|min_hold| grant.answered_at + min_hold),
            expires_at_ms: AtomicU64::new(grant.expires_at_ms),
            valid_until: AtomicU64::new(nanoseconds(grant.valid_until)),
            longest_ttl_ms: AtomicU64::new(policy.ttl.ms()),
            lost: OnceLock::new(),
            listener: OnceLock::new(),
            extending: tokio::sync::Mutex::new(()),
            shortened: Notify::new(),
            is_kept: AtomicBool::new(false),
            is_revoked: AtomicBool::new(false),
            ended: SetOnce::new(),
        }
    }

    /// Returns whether the hold needs a task while it lasts: for heartbeats, or to watch its deadline.
    pub(super) fn needs_keeper(&self) -> bool {
        self.policy.auto_extend || self.policy.max_hold.is_some() || self.listener.get().is_some()
    }

    /// Returns when the hold first needs its task, if it needs one.
    pub(super) fn needs_keeper_at(&self) -> Moment {
        self.first_due.min(self.valid_until())
    }

    pub(super) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Acquire)
    }

    /// Returns the latest expiry that is known.
    pub fn expires_at_ms(&self) -> u64 {
        self.expires_at_ms.load(Ordering::Relaxed)
    }

    pub(super) fn valid_until(&self) -> Moment {
        Moment::after_start(Duration::from_nanos(
            self.valid_until.load(Ordering::Acquire),
        ))
    }

    /// Records the new validity from the answer to an extension.
    pub(super) fn extended(&self, expires_at_ms: u64, valid_until: Moment) {
        self.expires_at_ms.store(expires_at_ms, Ordering::Relaxed);
        let until = nanoseconds(valid_until);
        if until < self.valid_until.swap(until, Ordering::AcqRel) {
            self.shortened.notify_one();
        }
    }

    /// Records that an extension is about to be sent. If it shortens the lock, the earlier deadline counts
    /// from now on, because the answer could come too late, or never.
    pub(super) fn note_extension_request(&self, ttl: Ttl, valid_until: Moment) {
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

    /// Returns the longest TTL that the store may have for this lock.
    pub(super) fn longest_ttl(&self) -> Ttl {
        let ms = self.longest_ttl_ms.load(Ordering::Acquire);
        Ttl::rounded_up(Duration::from_millis(ms)).unwrap_or(self.policy.ttl)
    }

    /// Returns for how long the lock is certainly still held. None if it is not.
    pub(super) fn held_for(&self, now: Moment) -> Option<Duration> {
        let left = self.valid_until().since(now);
        (self.lost.get().is_none() && !left.is_zero()).then_some(left)
    }

    /// Ends the hold, because the holder no longer needs the lock. There are no further heartbeats.
    pub(super) fn end(&self) {
        // The hold may have ended before.
        let _ = self.ended.set(());
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.is_revoked.load(Ordering::Acquire)
    }

    /// Marks the lock as lost, and notifies the listener. Only the first reason is kept.
    pub(super) fn mark_lost(&self, error: Error) {
        if self.lost.set(error).is_ok()
            && let (Some(listener), Some(error)) = (self.listener.get(), self.lost.get())
        {
            listener(HoldEvent::Lost(error));
        }
    }

    /// Marks the lock as lost, because the store no longer has it.
    pub(super) fn mark_lost_elsewhere(&self) {
        if !self.ended.initialized() {
            self.mark_lost(lost_elsewhere());
        }
    }

    pub(super) fn report_heartbeat(&self, outcome: Result<(), &Error>) {
        if let Some(listener) = self.listener.get() {
            listener(HoldEvent::Heartbeat(outcome));
        }
    }
}

/// Returns the time between two heartbeats, which extend a lock three times in each TTL.
pub(super) fn heartbeat_interval(policy: HoldPolicy) -> Duration {
    policy.ttl.duration() / 3
}

fn nanoseconds(moment: Moment) -> u64 {
    u64::try_from(moment.since_start().as_nanos()).unwrap_or(u64::MAX)
}

impl Client {
    /// Returns for how long the lock is certainly still held. None if it is not.
    pub fn held_for(&self, hold: &Hold) -> Option<Duration> {
        hold.held_for(self.host.now())
    }

    /// Returns whether the lock reached its caller too late. Work must not start with a lock that expires at
    /// once.
    pub fn is_late(&self, hold: &Hold) -> bool {
        let least = MIN_LEFT.min(hold.policy.ttl.duration() / MIN_LEFT_DIVISOR);
        self.held_for(hold).is_none_or(|left| left <= least)
    }

    /// Returns whether one hold of this client has had the key ever since `then`.
    pub(super) fn holds_since(&self, key: &Key, then: Moment) -> bool {
        let now = self.host.now();
        self.holds.any_of(key, |hold| {
            hold.granted_at <= then && !hold.ended.initialized() && hold.held_for(now).is_some()
        })
    }

    /// Waits until the hold has ended, or its lock is not certainly held any more.
    pub async fn until_not_held(&self, hold: &Hold) {
        while let Some(left) = self.held_for(hold) {
            tokio::select! {
                biased;
                _ = hold.ended.wait() => return,
                () = self.host.sleep_until(self.host.now() + left) => {}
            }
        }
    }

    /// Returns why the lock is no longer certainly held. None if it still is.
    pub fn lost(&self, hold: &Hold) -> Option<Error> {
        if self.held_for(hold).is_none() {
            hold.mark_lost(expired());
        }
        hold.lost.get().cloned()
    }

    /// Calls `listener` for each event of the hold from now on. Use [`lost`](Self::lost) to learn whether
    /// the lock was lost before this call.
    pub fn listen(self: &Arc<Self>, hold: &Arc<Hold>, listener: Listener) {
        let is_new = self
            .first_heartbeats
            .while_stopped(|| hold.listener.set(listener).is_ok());
        if is_new {
            self.keep_when_due(hold);
        }
    }
}

pub(super) fn lost(message: &str) -> Error {
    Error::new(ErrorCode::LockLost, message)
}

pub(super) fn lost_elsewhere() -> Error {
    lost("The lock was lost: it had expired or was released elsewhere")
}

pub(super) fn expired() -> Error {
    lost(
        "The lock's time passed while it was still needed: others may hold it now. \
         Use a longer ttlMs, or autoExtend",
    )
}
