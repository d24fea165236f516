//! Waiting for a lock and holding it, as JavaScript calls it. A hold has a number by which
//! JavaScript speaks of it until it ends.

use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use tokio_util::sync::CancellationToken;

use super::backend::{Answer, NativeBackend, Operations, checked, key_and_ttl, milliseconds};
use super::bridge::Completions;
use super::functions::retry_policy;
use super::owed::Outcome;
use super::reply::{self, Reply};
use crate::client::{Client, Hold, HoldEvent, HoldPolicy, HoldRequest, Settled, WaitPolicy};
use crate::map::FastMap;

/// The holds that JavaScript knows of.
#[derive(Default)]
pub(super) struct Held(Mutex<FastMap<u64, Arc<Hold>>>);

impl Held {
    fn lock(&self) -> MutexGuard<'_, FastMap<u64, Arc<Hold>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, number: f64) -> Option<Arc<Hold>> {
        self.lock().get(&(number as u64)).cloned()
    }

    fn remove(&self, number: u64) -> Option<Arc<Hold>> {
        self.lock().remove(&number)
    }
}

/// JavaScript can end nothing any more: what it holds is given back.
impl Drop for Operations {
    fn drop(&mut self) {
        for (_, hold) in self.held.lock().drain() {
            end_in_background(&self.client, hold);
        }
    }
}

fn end_in_background(client: &Arc<Client>, hold: Arc<Hold>) {
    let ending = Arc::clone(client).end(hold);
    client.host().spawn(Box::pin(async move {
        // It ends by its TTL then.
        let _ = ending.await;
    }));
}

/// `[maxRetries, retryDelayMs, exponential, jitter, timeoutMs, maxDelayMs, maxHoldMs, minHoldMs]`;
/// what is infinite has no limit. `jitter`: 0 none, 1 equal, 2 full.
#[derive(Clone, Copy)]
struct Limits([f64; 8]);

impl Limits {
    /// What is missing has no limit, or is nothing.
    fn read(given: &[f64]) -> Self {
        Self(std::array::from_fn(|index| {
            given.get(index).copied().unwrap_or(f64::INFINITY)
        }))
    }

    fn wait(self) -> WaitPolicy {
        let [
            max_retries,
            retry_delay_ms,
            exponential,
            jitter,
            timeout_ms,
            max_delay_ms,
            ..,
        ] = self.0;
        WaitPolicy {
            retry: retry_policy(
                retry_delay_ms,
                max_delay_ms,
                exponential != 0.0,
                jitter as u32,
            ),
            // Casts saturate, and NaN becomes 0.
            max_retries: max_retries as u32,
            timeout: limit(timeout_ms),
        }
    }
}

fn limit(ms: f64) -> Option<Duration> {
    ms.is_finite().then(|| milliseconds(ms))
}

/// Turns what the engine says into a reply, and numbers the hold.
struct Numbering {
    client: Arc<Client>,
    held: Arc<Held>,
    completions: Arc<Completions>,
}

impl Numbering {
    fn outcome(&self, settled: Settled<Option<Arc<Hold>>>) -> Outcome {
        let reply = match settled.result {
            Ok(Some(hold)) => {
                let number = self.completions.next_id();
                let text = reply::held(&hold, number);
                self.held.lock().insert(number, hold);
                let (client, held) = (Arc::clone(&self.client), Arc::clone(&self.held));
                Reply::from(text).or_else(move || {
                    if let Some(hold) = held.remove(number) {
                        drop(client.abandon(&hold));
                    }
                })
            }
            Ok(None) => reply::locked().into(),
            Err(error) => error.into(),
        };
        Outcome {
            reply,
            undo: settled.undo,
        }
    }
}

impl Operations {
    fn numbering(&self) -> Numbering {
        Numbering {
            client: Arc::clone(&self.client),
            held: Arc::clone(&self.held),
            completions: Arc::clone(&self.completions),
        }
    }

    fn start_hold(
        &self,
        holding: impl Future<Output = Settled<Option<Arc<Hold>>>> + Send + 'static,
        cancel: Option<CancellationToken>,
    ) -> Answer {
        let numbering = self.numbering();
        self.start(async move { numbering.outcome(holding.await) }, cancel)
    }

    /// Without `limits` the wait has the default ones. `caller`: see `Backend::acquire_for`.
    #[allow(
        clippy::too_many_arguments,
        reason = "positional arguments are the cheapest crossing"
    )]
    pub fn hold(
        &self,
        key: &str,
        ttl_ms: f64,
        wait: bool,
        auto_extend: bool,
        cancellable: bool,
        caller: f64,
        limits: &[f64],
    ) -> Answer {
        checked(key_and_ttl(key, ttl_ms), |(key, ttl)| {
            const DEFAULTS: [f64; 5] = [10.0, 100.0, 1.0, 1.0, 5000.0];
            let limits = Limits::read(if limits.is_empty() { &DEFAULTS } else { limits });
            let request = HoldRequest {
                key,
                policy: HoldPolicy {
                    ttl,
                    auto_extend,
                    longest: limit(limits.0[6]),
                    shortest: limit(limits.0[7]),
                },
                wait: wait.then(|| limits.wait()),
                caller: caller as u64,
            };
            let cancel = cancellable.then(CancellationToken::new);
            let holding = Arc::clone(&self.client).hold(request, cancel.clone());
            self.start_hold(holding, cancel)
        })
    }

    /// Gives the lock back; unless `knows_loss` only while it is surely held. `takes`: who waits may
    /// be answered along with this, without a wake-up of the event loop.
    pub fn end_hold(&self, number: f64, takes: bool, knows_loss: bool) -> Answer {
        let hold = match self.held.lock().entry(number as u64) {
            Entry::Vacant(_) => return Either::A(reply::boolean(false)),
            Entry::Occupied(hold) => {
                if !knows_loss && self.client.held_for(hold.get()).is_none() {
                    return Either::A(reply::unsure());
                }
                hold.remove()
            }
        };
        let client = Arc::clone(&self.client);
        let ending = async move { reply::of(client.end(hold).await, reply::released).into() };
        let mut answer = self.completions.in_turn(&self.runtime, || {
            self.poll_once(self.outside_of_single(), ending, None)
        });
        if let Either::A(released) = &mut answer
            && takes
            && released == reply::DONE
            && let Some((id, reply)) = self.completions.take_single()
        {
            reply::append(released, id, reply);
        }
        self.bring_replies();
        answer
    }

    /// For how many milliseconds the lock is still surely held; negative when it is not.
    pub fn held_for(&self, number: f64) -> f64 {
        let left = self
            .held
            .get(number)
            .and_then(|hold| self.client.held_for(&hold));
        left.map_or(-1.0, |left| left.as_secs_f64() * 1000.0)
    }
}

#[napi]
impl NativeBackend {
    /// The hold came too late to be of use: gives it back, and goes on waiting.
    #[napi]
    pub fn hold_again(&self, number: f64, cancellable: bool, caller: f64) -> Answer {
        let Some(hold) = self.held.remove(number as u64) else {
            return Either::A(reply::locked());
        };
        let cancel = cancellable.then(CancellationToken::new);
        let holding = Arc::clone(&self.client).hold_again(hold, caller as u64, cancel.clone());
        self.start_hold(holding, cancel)
    }

    /// Gives a lock back that nobody ever used.
    #[napi]
    pub fn abandon_hold(&self, number: f64) -> Answer {
        let Some(hold) = self.held.remove(number as u64) else {
            return Either::A(reply::boolean(false));
        };
        let client = Arc::clone(&self.client);
        let abandoning = async move {
            client.abandon(&hold).await;
            Reply::nothing().into()
        };
        self.start_single(abandoning, None)
    }

    /// The latest expiry that is known; 0 when the hold has ended.
    #[napi]
    pub fn hold_expires_at(&self, number: f64) -> f64 {
        let hold = self.held.get(number);
        hold.map_or(0.0, |hold| hold.expires_at_ms() as f64)
    }

    /// Why the lock is not surely held any more; nothing while it is.
    #[napi]
    pub fn hold_lost(&self, number: f64) -> Option<String> {
        let lost = self.client.lost(&*self.held.get(number)?)?;
        Some(reply::error(&lost))
    }

    /// From now on tells, under the hold's number, when the lock is lost (an error) and, if asked
    /// for, how each heartbeat went (`B`, with an error when it failed).
    #[napi]
    pub fn listen_hold(&self, number: f64, beats: bool) {
        let Some(hold) = self.held.get(number) else {
            return;
        };
        let number = number as u64;
        let completions = Arc::clone(&self.completions);
        let listener = Box::new(move |event: HoldEvent<'_>| match event {
            HoldEvent::Lost(error) => completions.post(number, error.clone().into()),
            HoldEvent::Beat(_) if !beats => {}
            HoldEvent::Beat(Ok(())) => completions.post(number, "B".to_owned().into()),
            HoldEvent::Beat(Err(error)) => {
                completions.post(number, format!("B{}", reply::error(error)).into());
            }
        });
        self.here(|| self.client.listen(&hold, listener));
    }
}
