//! Several keys that are acquired together: all of them, or none.
//!
//! All callers acquire keys in the same order, so they cannot wait for each other in a circle. A caller
//! that waits for a key holds only keys that come before it.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use tokio_util::sync::CancellationToken;

use super::acquire::{Failure, HoldRequest, LockRequest, Settled};
use super::hold::Hold;
#[cfg(test)]
use super::simulation::mutation::Mutation;
use super::wait::{Progress, WaitPolicy, was_lost};
use super::{Client, Grant, HoldPolicy, aborted};
use crate::backend::ExtendOutcome;
use crate::error::{Error, Result};
use crate::lock::{Access, Key, Ttl};

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
        #[cfg(test)]
        let unsorted = keys.clone();
        keys.sort_unstable_by(|a, b| a.as_str().as_bytes().cmp(b.as_str().as_bytes()));
        keys.dedup();
        #[cfg(test)]
        let keys = Mutation::KeysUnsorted.instead(keys, without_repetitions(unsorted));
        Self {
            keys,
            access,
            policy,
            wait,
            caller,
        }
    }

    /// Returns the request for one of the keys.
    fn of(&self, key: &Key) -> HoldRequest {
        HoldRequest {
            key: key.clone(),
            access: self.access,
            policy: self.policy_meanwhile(),
            wait: None,
            caller: self.caller,
        }
    }

    /// Returns the policy for locks that were acquired while others are still missing: they are kept
    /// alive.
    fn policy_meanwhile(&self) -> HoldPolicy {
        if self.wait.is_none() {
            return self.policy;
        }
        HoldPolicy {
            auto_extend: true,
            ..self.policy.ttl.into()
        }
    }
}

#[cfg(test)]
fn without_repetitions(keys: Vec<Key>) -> Vec<Key> {
    let mut kept: Vec<Key> = Vec::new();
    for key in keys {
        if !kept.contains(&key) {
            kept.push(key);
        }
    }
    kept
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
        let progress = last.progress.resumed();
        let (access, policy, wait) = (last.access, last.policy, progress.policy);
        let request = SeveralRequest::new(keys, access, policy, wait, caller);
        drop(self.abandon_all(&holds));
        self.hold_several_from(request, progress, cancel).await
    }

    async fn hold_several_from(
        self: Arc<Self>,
        request: SeveralRequest,
        mut progress: Progress,
        cancel: Option<CancellationToken>,
    ) -> Settled<Option<Vec<Arc<Hold>>>> {
        let mut held: Vec<Arc<Hold>> = Vec::new();
        let mut had_to_wait = false;
        loop {
            progress.attempts = progress.attempts.saturating_add(1);
            let missing = &request.keys[held.len()..];
            let behind = match self.try_all(&request, missing, progress, &cancel).await {
                Ok((granted, behind)) => {
                    held.extend(granted);
                    behind
                }
                Err(failure) => return self.give_up(&held, failure),
            };
            self.drop_from_first_lost(&mut held);
            let Some(refused) = request.keys.get(held.len()) else {
                let settled = self.settle(&held, &request, had_to_wait, progress, &cancel);
                match settled.await {
                    Ok(settled) => held = settled,
                    Err(failure) => return failure.into(),
                }
                if cancel.as_ref().is_some_and(CancellationToken::is_cancelled) {
                    return self.give_up(&held, aborted().into());
                }
                if held.len() == request.keys.len() {
                    return Ok(Some(held)).into();
                }
                continue;
            };
            if request.wait.is_none() {
                let all = join_all([behind, self.abandon_all(&held)]);
                return self.refuse(Box::pin(all.map(drop)), &cancel).await;
            }
            had_to_wait = true;
            let waiting = request.of(refused);
            let settled = Arc::clone(&self).hold_from(waiting, progress.resumed(), cancel.clone());
            match settled.await {
                Settled {
                    result: Ok(Some(hold)),
                    ..
                } => {
                    progress = hold.progress;
                    held.push(hold);
                }
                // A wait is never refused.
                Settled {
                    result: Ok(None), ..
                } => {}
                Settled {
                    result: Err(error),
                    undo,
                } => return self.give_up(&held, Failure { error, undo }),
            }
            self.drop_from_first_lost(&mut held);
        }
    }

    /// Makes an attempt for each key, all at once. Returns the locks before the first refused key. Those
    /// behind it are released in the background: see [`abandon_all`](Self::abandon_all).
    async fn try_all(
        self: &Arc<Self>,
        request: &SeveralRequest,
        keys: &[Key],
        progress: Progress,
        cancel: &Option<CancellationToken>,
    ) -> Result<(Vec<Arc<Hold>>, BoxFuture<'static, ()>), Failure> {
        let attempts = keys.iter().map(|key| {
            let single = request.of(key);
            Arc::clone(self).hold_from(single, progress.single(), cancel.clone())
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
        let Some((error, mut undos)) = failed else {
            #[cfg(test)]
            if Mutation::BehindKept.is_on() {
                behind.clear();
            }
            return Ok((granted, self.abandon_all(&behind)));
        };
        behind.extend(granted);
        let abandoned = self.abandon_all(&behind);
        undos.push(abandoned);
        Err(Failure {
            error,
            undo: Some(Box::pin(join_all(undos).map(drop))),
        })
    }

    /// Gives the locks their final policy once all of them were acquired, and after a wait their whole
    /// TTL. If one was lost in the meantime, only the locks before it remain. After an error, none does.
    async fn settle(
        self: &Arc<Self>,
        held: &[Arc<Hold>],
        request: &SeveralRequest,
        had_to_wait: bool,
        progress: Progress,
        cancel: &Option<CancellationToken>,
    ) -> Result<Vec<Arc<Hold>>, Failure> {
        if held.iter().all(|hold| hold.policy == request.policy) {
            return Ok(held.to_vec());
        }
        let ttl = had_to_wait.then_some(request.policy.ttl);
        let mut preparing = Box::pin(Arc::clone(self).prepare_all(held.to_vec(), ttl));
        let error = tokio::select! {
            biased;
            prepared = &mut preparing => return match prepared {
                Ok(grants) => self.replace(held, grants, request, progress),
                Err(error) => Err(self.without(held, error)),
            },
            error = self.stopped(cancel.as_ref()) => error,
            error = self.until_over(&progress) => error,
        };
        let (client, held) = (Arc::clone(self), held.to_vec());
        let undo = self.in_background(async move {
            // The requests in flight are awaited, so that the release is the last one.
            let _ = preparing.await;
            client.abandon_all(&held).await;
        });
        let undo = Some(undo);
        Err(Failure { error, undo })
    }

    /// Ends holds without releasing their locks, and extends the locks if there is a `ttl`. Returns the
    /// state of each lock as a grant, or None if the lock is lost.
    async fn prepare_all(
        self: Arc<Self>,
        held: Vec<Arc<Hold>>,
        ttl: Option<Ttl>,
    ) -> Result<Vec<Option<Grant>>> {
        let prepared = held.iter().map(|hold| self.prepare(hold, ttl));
        join_all(prepared).await.into_iter().collect()
    }

    async fn prepare(&self, hold: &Hold, ttl: Option<Ttl>) -> Result<Option<Grant>> {
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
        if let Some(ttl) = ttl {
            let valid_until = self.host.now() + ttl.duration();
            match self.backend.extend(hold.lock_id, ttl).await {
                Ok(ExtendOutcome::Extended { expires_at_ms }) => {
                    hold.extended(expires_at_ms, valid_until);
                }
                Ok(ExtendOutcome::Missed(_)) => return Ok(None),
                // The lock is acquired again when there is a connection.
                Err(error) if was_lost(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let now = self.host.now();
        Ok(Some(Grant {
            lock_id: hold.lock_id,
            fence: hold.fence,
            expires_at_ms: hold.expires_at_ms(),
            share: hold.share,
            granted_at: now,
            answered_at: now,
            valid_until: hold.valid_until(),
        }))
    }

    /// Holds prepared locks again: with the caller's policy if none is lost, or else those before the
    /// first lost one with the policy that they had.
    fn replace(
        self: &Arc<Self>,
        held: &[Arc<Hold>],
        grants: Vec<Option<Grant>>,
        request: &SeveralRequest,
        progress: Progress,
    ) -> Result<Vec<Arc<Hold>>, Failure> {
        // An answer may have come after the lock's validity ended.
        let now = self.host.now();
        let lasts = |grant: &Grant| now < grant.valid_until;
        let lasting = grants
            .iter()
            .take_while(|grant| grant.as_ref().is_some_and(lasts));
        let count = lasting.count();
        let (held, lost) = held.split_at(count);
        drop(self.abandon_all(lost));
        let policy = if lost.is_empty() {
            request.policy
        } else {
            request.policy_meanwhile()
        };
        let replaced = held.iter().zip(grants.iter().flatten());
        let replaced: Vec<_> = replaced
            .map(|(hold, grant)| {
                let lock = LockRequest {
                    key: hold.key.clone(),
                    ttl: policy.ttl,
                    access: hold.access,
                    caller: 0,
                };
                Arc::new(Hold::new(&lock, grant, policy, progress, now))
            })
            .collect();
        for hold in &replaced {
            self.holds.remove(hold.lock_id);
            if let Err(error) = self.register(hold) {
                return Err(self.without(&replaced, error));
            }
        }
        Ok(replaced)
    }

    /// Releases the first lost lock and those behind it, in the background.
    fn drop_from_first_lost(self: &Arc<Self>, held: &mut Vec<Arc<Hold>>) {
        let is_lost = |hold: &Arc<Hold>| self.lost(hold).is_some();
        if let Some(first) = held.iter().position(is_lost) {
            drop(self.abandon_all(&held.split_off(first)));
        }
    }

    /// Releases locks that are of no use without the others, in the background. The returned future ends
    /// when they are released.
    fn abandon_all(self: &Arc<Self>, holds: &[Arc<Hold>]) -> BoxFuture<'static, ()> {
        #[cfg(test)]
        if Mutation::SetLeft.is_on() {
            return Box::pin(std::future::ready(()));
        }
        let undos: Vec<_> = holds.iter().map(|hold| self.abandon(hold)).collect();
        Box::pin(join_all(undos).map(drop))
    }

    /// Refuses a single attempt once the locks that it acquired are released, so that its caller finds
    /// them free.
    async fn refuse(
        &self,
        mut abandoned: BoxFuture<'static, ()>,
        cancel: &Option<CancellationToken>,
    ) -> Settled<Option<Vec<Arc<Hold>>>> {
        tokio::select! {
            biased;
            () = &mut abandoned => Ok(None).into(),
            error = self.stopped(cancel.as_ref()) => Settled {
                result: Err(error),
                undo: Some(abandoned),
            },
        }
    }

    /// Returns the error, and releases the acquired locks in the background.
    fn give_up(
        self: &Arc<Self>,
        held: &[Arc<Hold>],
        Failure { error, undo }: Failure,
    ) -> Settled<Option<Vec<Arc<Hold>>>> {
        let undos = [Some(self.abandon_all(held)), undo].into_iter().flatten();
        Settled {
            result: Err(error),
            undo: Some(Box::pin(join_all(undos).map(drop))),
        }
    }

    /// Returns the failure of a caller that gets none of these locks.
    fn without(self: &Arc<Self>, held: &[Arc<Hold>], error: Error) -> Failure {
        let undo = Some(self.abandon_all(held));
        Failure { error, undo }
    }
}
