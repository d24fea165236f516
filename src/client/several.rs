//! Several keys that are acquired together: all of them, or none.
//!
//! All callers acquire keys in the same order, so they cannot wait for each other in a circle. A caller
//! that waits for a key holds only keys that come before it.

use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use tokio_util::sync::CancellationToken;

use super::acquire::{HoldRequest, LockRequest, Settled};
use super::hold::Hold;
use super::wait::{Progress, WaitPolicy, was_lost};
use super::{Client, Grant, HoldPolicy};
use crate::backend::ExtendOutcome;
use crate::error::{Error, Result};
use crate::lock::{Access, Key};

/// The locks that a caller wants to hold together.
#[derive(Debug, Clone)]
pub struct SeveralRequest {
    keys: Vec<Key>,
    access: Access,
    policy: HoldPolicy,
    wait: Option<WaitPolicy>,
    caller: u64,
}

impl SeveralRequest {
    /// Creates a request. Puts the keys into the order that all callers share, and removes duplicates.
    /// `wait` limits the whole wait, and is None for a single attempt. For `caller`, see
    /// [`AcquireRequest::caller`](crate::backend::AcquireRequest::caller).
    pub fn new(
        mut keys: Vec<Key>,
        access: Access,
        policy: HoldPolicy,
        wait: Option<WaitPolicy>,
        caller: u64,
    ) -> Self {
        keys.sort_unstable_by(|a, b| a.as_str().as_bytes().cmp(b.as_str().as_bytes()));
        keys.dedup();
        Self {
            keys,
            access,
            policy,
            wait,
            caller,
        }
    }

    /// Returns the request for one of the keys.
    fn of(&self, key: &Key, policy: HoldPolicy) -> HoldRequest {
        HoldRequest {
            key: key.clone(),
            access: self.access,
            policy,
            wait: None,
            caller: self.caller,
        }
    }
}

/// Returns the policy for locks that were acquired while others are still missing: they are kept alive.
fn kept(policy: HoldPolicy) -> HoldPolicy {
    HoldPolicy {
        auto_extend: true,
        ..policy.ttl.into()
    }
}

impl Client {
    /// Waits for all locks and holds them. None if a single attempt was refused.
    pub async fn hold_several(
        self: Arc<Self>,
        request: SeveralRequest,
        cancel: Option<CancellationToken>,
    ) -> Settled<Option<Vec<Arc<Hold>>>> {
        let progress = Progress::start(request.wait, self.host.now());
        self.hold_several_from(request, progress, cancel).await
    }

    /// Releases locks whose grant came too late for their caller, and continues the wait.
    pub async fn hold_several_again(
        self: Arc<Self>,
        holds: Vec<Arc<Hold>>,
        caller: u64,
        cancel: Option<CancellationToken>,
    ) -> Settled<Option<Vec<Arc<Hold>>>> {
        let Some(last) = holds.last() else {
            return Ok(None).into();
        };
        let keys = holds.iter().map(|hold| hold.key.clone()).collect();
        let progress = last.progress;
        let (access, policy, wait) = (last.access, last.policy, progress.policy);
        let request = SeveralRequest::new(keys, access, policy, wait, caller);
        self.abandon_all(&holds).await;
        self.hold_several_from(request, progress, cancel).await
    }

    async fn hold_several_from(
        self: Arc<Self>,
        request: SeveralRequest,
        mut progress: Progress,
        cancel: Option<CancellationToken>,
    ) -> Settled<Option<Vec<Arc<Hold>>>> {
        let mut held: Vec<Arc<Hold>> = Vec::new();
        let mut policy = request.policy;
        loop {
            progress.attempts = progress.attempts.saturating_add(1);
            let missing = &request.keys[held.len()..];
            let refused = match self.try_all(&request, missing, policy, &cancel).await {
                Tried::Granted(granted) => {
                    held.extend(granted);
                    None
                }
                Tried::Refused(before) => {
                    held.extend(before);
                    if request.wait.is_none() {
                        self.abandon_all(&held).await;
                        return Ok(None).into();
                    }
                    request.keys.get(held.len())
                }
                Tried::Failed(error, undo) => return self.give_up(held, error, undo),
            };
            let Some(refused) = refused else {
                // Nothing had to be waited for, or the locks are held in the same way all the time.
                match self.settle(held, &request, progress).await {
                    Ok(Settling::Done(held)) => return Ok(Some(held)).into(),
                    Ok(Settling::Lost(rest)) => held = rest,
                    Err((rest, error)) => return self.give_up(rest, error, None),
                }
                policy = kept(request.policy);
                continue;
            };
            // From here on locks are kept alive while others are missing.
            policy = kept(request.policy);
            held = match self.hold_as(held, policy, false, progress).await {
                Ok(held) => held,
                Err((rest, error)) => return self.give_up(rest, error, None),
            };
            let waiting = request.of(refused, policy);
            let settled = Arc::clone(&self).hold_from(waiting, progress, cancel.clone());
            match settled.await {
                Settled {
                    result: Ok(Some(hold)),
                    ..
                } => {
                    progress = hold.progress;
                    held.push(hold);
                }
                Settled {
                    result: Ok(None), ..
                } => {
                    self.abandon_all(&held).await;
                    return Ok(None).into();
                }
                Settled {
                    result: Err(error),
                    undo,
                } => return self.give_up(held, error, undo),
            }
            held = self.without_lost(held).await;
        }
    }

    /// Makes an attempt for each key, all at once. Locks behind the first refused key are released.
    async fn try_all(
        self: &Arc<Self>,
        request: &SeveralRequest,
        keys: &[Key],
        policy: HoldPolicy,
        cancel: &Option<CancellationToken>,
    ) -> Tried {
        let attempts = keys.iter().map(|key| {
            let single = request.of(key, policy);
            Arc::clone(self).hold(single, cancel.clone())
        });
        let mut granted = Vec::new();
        let mut behind = Vec::new();
        let mut is_refused = false;
        let mut failed: Option<(Error, Vec<BoxFuture<'static, ()>>)> = None;
        for Settled { result, undo } in join_all(attempts).await {
            match result {
                Ok(Some(hold)) if is_refused || failed.is_some() => behind.push(hold),
                Ok(Some(hold)) => granted.push(hold),
                Ok(None) => is_refused = true,
                // The wait for this key repeats an attempt that was lost with its connection.
                Err(error) if request.wait.is_some() && was_lost(&error) => is_refused = true,
                Err(error) => {
                    let (_, undos) = failed.get_or_insert_with(|| (error, Vec::new()));
                    undos.extend(undo);
                }
            }
        }
        let Some((error, undos)) = failed else {
            self.abandon_all(&behind).await;
            return if is_refused {
                Tried::Refused(granted)
            } else {
                Tried::Granted(granted)
            };
        };
        behind.extend(granted);
        let abandoned = self.abandoning(&behind);
        let undo = async move {
            join_all(undos).await;
            abandoned.await;
        };
        Tried::Failed(error, Some(Box::pin(undo)))
    }

    /// Gives the locks their final policy once all of them were acquired. If one was lost in the meantime,
    /// only the locks before it remain.
    async fn settle(
        self: &Arc<Self>,
        held: Vec<Arc<Hold>>,
        request: &SeveralRequest,
        progress: Progress,
    ) -> Result<Settling, (Vec<Arc<Hold>>, Error)> {
        let count = held.len();
        let had_to_wait = held.iter().any(|hold| hold.policy != request.policy);
        let held = if had_to_wait {
            self.hold_as(held, request.policy, true, progress).await?
        } else {
            held
        };
        let held = self.without_lost(held).await;
        Ok(if held.len() == count {
            Settling::Done(held)
        } else {
            Settling::Lost(held)
        })
    }

    /// Holds the same locks with another policy. If `renew`, each of them gets its whole TTL again. Locks
    /// from the first lost one on are released and left out. An error comes with the locks to release.
    async fn hold_as(
        self: &Arc<Self>,
        held: Vec<Arc<Hold>>,
        policy: HoldPolicy,
        renew: bool,
        progress: Progress,
    ) -> Result<Vec<Arc<Hold>>, (Vec<Arc<Hold>>, Error)> {
        let changes = held.iter().map(|hold| async {
            if hold.policy == policy {
                return Ok(Some(Arc::clone(hold)));
            }
            self.change_policy(hold, policy, renew, progress).await
        });
        let mut changed = Vec::with_capacity(held.len());
        let mut failure = None;
        for result in join_all(changes).await {
            match result {
                Ok(hold) => changed.push(hold),
                Err(error) => {
                    changed.push(None);
                    failure.get_or_insert(error);
                }
            }
        }
        if let Some(error) = failure {
            let both = held.into_iter().zip(changed);
            let rest = both.map(|(old, new)| new.unwrap_or(old)).collect();
            return Err((rest, error));
        }
        let mut kept = Vec::with_capacity(changed.len());
        let mut behind = Vec::new();
        let mut is_lost = false;
        for (old, new) in held.iter().zip(changed) {
            is_lost |= new.is_none();
            let hold = new.unwrap_or_else(|| Arc::clone(old));
            if is_lost {
                behind.push(hold);
            } else {
                kept.push(hold);
            }
        }
        self.abandon_all(&behind).await;
        Ok(kept)
    }

    /// Ends a hold without releasing its lock, and holds the lock with another policy. None if the lock
    /// is lost.
    async fn change_policy(
        self: &Arc<Self>,
        hold: &Arc<Hold>,
        policy: HoldPolicy,
        renew: bool,
        progress: Progress,
    ) -> Result<Option<Arc<Hold>>> {
        // The hold is ended first, so that no further heartbeat begins. A heartbeat in flight is awaited,
        // because it could otherwise replace the new expiry.
        hold.end();
        let extending = tokio::select! {
            biased;
            extending = hold.extending.lock() => Some(extending),
            () = self.host.sleep_until(hold.valid_until()) => None,
        };
        if extending.is_none() || hold.held_for(self.host.now()).is_none() {
            return Ok(None);
        }
        let mut expires_at_ms = hold.expires_at_ms();
        let mut valid_until = hold.valid_until();
        if renew {
            let until = self.host.now() + policy.ttl.duration();
            match self.backend.extend(hold.lock_id, policy.ttl).await? {
                ExtendOutcome::Missed(_) => return Ok(None),
                ExtendOutcome::Extended { expires_at_ms: at } => {
                    (expires_at_ms, valid_until) = (at, until);
                }
            }
        }
        let now = self.host.now();
        let grant = Grant {
            lock_id: hold.lock_id,
            fence: hold.fence,
            expires_at_ms,
            share: hold.share,
            granted_at: now,
            answered_at: now,
            valid_until,
        };
        let lock = LockRequest {
            key: hold.key.clone(),
            ttl: policy.ttl,
            access: hold.access,
            caller: 0,
        };
        let next = Arc::new(Hold::new(&lock, &grant, policy, progress, now));
        self.holds.remove(hold.lock_id);
        self.register(&next)?;
        Ok(Some(next))
    }

    /// Releases the first lost lock and those behind it. Returns the locks before it.
    async fn without_lost(self: &Arc<Self>, mut held: Vec<Arc<Hold>>) -> Vec<Arc<Hold>> {
        let is_lost = |hold: &Arc<Hold>| self.lost(hold).is_some();
        if let Some(first) = held.iter().position(is_lost) {
            let lost = held.split_off(first);
            self.abandon_all(&lost).await;
        }
        held
    }

    /// Releases locks that are of no use without the others.
    async fn abandon_all(self: &Arc<Self>, holds: &[Arc<Hold>]) {
        self.abandoning(holds).await;
    }

    fn abandoning(self: &Arc<Self>, holds: &[Arc<Hold>]) -> BoxFuture<'static, ()> {
        let undos: Vec<_> = holds.iter().map(|hold| self.abandon(hold)).collect();
        Box::pin(async move {
            join_all(undos).await;
        })
    }

    /// Returns the error, and releases the acquired locks in the background.
    fn give_up(
        self: &Arc<Self>,
        held: Vec<Arc<Hold>>,
        error: Error,
        undo: Option<BoxFuture<'static, ()>>,
    ) -> Settled<Option<Vec<Arc<Hold>>>> {
        let abandoned = self.abandoning(&held);
        Settled {
            result: Err(error),
            undo: Some(Box::pin(async move {
                abandoned.await;
                if let Some(undo) = undo {
                    undo.await;
                }
            })),
        }
    }
}

/// The outcome of one attempt for several keys.
enum Tried {
    Granted(Vec<Arc<Hold>>),
    /// The locks before the first refused key.
    Refused(Vec<Arc<Hold>>),
    Failed(Error, Option<BoxFuture<'static, ()>>),
}

enum Settling {
    Done(Vec<Arc<Hold>>),
    /// The locks before the first lost one.
    Lost(Vec<Arc<Hold>>),
}
