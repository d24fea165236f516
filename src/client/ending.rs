//! The ends of a hold: its holder releases it, nobody ever used it, or the engine revokes it.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::{BoxFuture, join_all};

use super::Client;
use super::hold::{Hold, lost};
#[cfg(test)]
use super::simulation::mutation::Mutation;
use crate::backend::{ExtendOutcome, Miss, ReleaseOutcome, ReleaseRequest};
use crate::error::{Error, Result};
use crate::lock::{Key, LockId, Ttl};

impl Client {
    /// Releases the lock. If that is too early for [`HoldPolicy::min_hold`], the lock keeps the
    /// remaining time and then expires.
    ///
    /// [`HoldPolicy::min_hold`]: super::HoldPolicy::min_hold
    pub async fn end(self: Arc<Self>, hold: Arc<Hold>) -> Result<ReleaseOutcome> {
        hold.end();
        let outcome = if self.remaining(&hold).is_some() {
            self.shorten_after_heartbeat(&hold).await
        } else {
            self.release_hold(&hold).await
        };
        self.holds.remove(hold.lock_id);
        outcome
    }

    /// Releases all held locks, as their holders would, because the process is about to end. From now on
    /// no lock is acquired, and acquires are not answered.
    pub async fn end_all(self: Arc<Self>) {
        self.is_process_ending.store(true, Ordering::Release);
        self.closing.cancel();
        let holds = self.holds.all().into_iter().map(|hold| {
            hold.mark_lost(lost("The lock was released: its process is about to end"));
            Arc::clone(&self).end(hold)
        });
        join_all(holds).await;
        self.finish_undoing().await;
    }

    /// Stops keeping the lock alive without releasing it: it ends by its TTL.
    pub fn leave(&self, hold: &Hold) {
        hold.end();
        self.holds.remove(hold.lock_id);
    }

    /// Releases a lock that nobody ever used. The returned future is that of [`Client::undo`].
    pub fn abandon(self: &Arc<Self>, hold: &Hold) -> BoxFuture<'static, ()> {
        hold.end();
        self.holds.remove(hold.lock_id);
        self.undo(hold.lock_id, &hold.key, hold.longest_ttl())
    }

    async fn release_hold(&self, hold: &Hold) -> Result<ReleaseOutcome> {
        if hold.is_revoked() {
            return Ok(ReleaseOutcome::Missed(Miss::NotFound));
        }
        self.release_and_wake(hold.lock_id, &hold.key).await
    }

    /// Returns for how long the lock must still be held. None if it may be released now.
    fn remaining(&self, hold: &Hold) -> Option<Ttl> {
        Ttl::rounded_up(hold.min_hold_until?.since(self.host.now()))
    }

    /// Returns whether the holder released the lock so early that it must stay until it expires.
    pub(super) fn is_left_to_expire(&self, hold: &Hold) -> bool {
        hold.ended.initialized() && self.remaining(hold).is_some()
    }

    /// Shortens the lock to its remaining time, after the extension that may be in flight. A heartbeat that
    /// arrives later would replace the remaining time with its TTL.
    async fn shorten_after_heartbeat(self: &Arc<Self>, hold: &Arc<Hold>) -> Result<ReleaseOutcome> {
        #[cfg(test)]
        if Mutation::ShortenedOutOfTurn.is_on() {
            return self.shorten(hold).await;
        }
        let extending = tokio::select! {
            biased;
            extending = hold.extending.lock() => Some(extending),
            () = self.host.sleep_until(hold.valid_until()) => None,
        };
        if extending.is_some() {
            return self.shorten(hold).await;
        }
        // The store did not answer before the lock was lost. The caller need not wait any longer.
        let (client, hold) = (Arc::clone(self), Arc::clone(hold));
        drop(self.in_background(async move {
            let _extending = hold.extending.lock().await;
            if client.remaining(&hold).is_some() {
                // The caller has its answer, so nobody can handle an error.
                let _ = client.shorten(&hold).await;
            } else {
                client.abandon(&hold).await;
            }
        }));
        Ok(ReleaseOutcome::Missed(Miss::Expired))
    }

    async fn shorten(&self, hold: &Hold) -> Result<ReleaseOutcome> {
        self.check_open()?;
        match self.remaining(hold) {
            Some(remaining) if !hold.is_revoked() => {
                Ok(match self.backend.extend(hold.lock_id, remaining).await? {
                    ExtendOutcome::Extended { .. } => ReleaseOutcome::Released,
                    ExtendOutcome::Missed(miss) => ReleaseOutcome::Missed(miss),
                })
            }
            _ => self.release_hold(hold).await,
        }
    }

    /// Releases the lock and wakes the first waiter of this process.
    pub(super) async fn release_and_wake(
        &self,
        lock_id: LockId,
        key: &Key,
    ) -> Result<ReleaseOutcome> {
        let request = ReleaseRequest {
            lock_id,
            key: Some(key.clone()),
        };
        let mut releasing = self.backend.release(request);
        // If the store keeps the order of requests, the waiter's attempt is sent right after the release
        // and not a round trip later. If that attempt is refused anyway, the answer to the release causes
        // another one.
        let mut wakes_early = self.capabilities.keeps_order;
        let mut woken = None;
        let outcome = poll_fn(|context| {
            let polled = releasing.as_mut().poll(context);
            if polled.is_pending() && std::mem::take(&mut wakes_early) {
                woken = self.queues.released(key);
            }
            polled
        })
        .await?;
        self.queues.confirm_release(key, woken);
        Ok(outcome)
    }

    /// Revokes a lock: notifies its holder of the loss and the reason, and releases it in the background.
    pub(super) fn revoke(self: &Arc<Self>, hold: &Hold, why: Error) {
        hold.mark_lost(why);
        if !hold.is_revoked.swap(true, Ordering::AcqRel) {
            self.disown(hold.lock_id, &hold.key, hold.longest_ttl());
        }
    }
}
