//! Waiting for a lock and holding it, as JavaScript calls it. JavaScript refers to a hold by its number.

use parking_lot::Mutex;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use napi::bindgen_prelude::{Either, Float64Array};
use napi_derive::napi;
use tokio_util::sync::CancellationToken;

use super::backend::NativeBackend;
use super::calls::access;
use super::exit;
use super::operation::{Answer, Operations, Outcome, checked, key_and_ttl, milliseconds};
use super::outbox::Outbox;
use super::reply::{self, Reply};
use crate::client::{
    Client, Hold, HoldEvent, HoldPolicy, HoldRequest, Settled, SeveralRequest, WaitPolicy,
};
use crate::error::{Error, Result};
use crate::lock::retry::{Backoff, Jitter, RetryPolicy};
use crate::lock::{Key, Ttl};
use crate::map::FastMap;

/// The locks of one backend that JavaScript holds.
pub(super) struct Held {
    client: Arc<Client>,
    /// Whether the end of the environment releases them.
    releases_on_exit: AtomicBool,
    /// By their numbers.
    holds: Mutex<FastMap<u64, Arc<Hold>>>,
}

impl Held {
    pub fn new(client: Arc<Client>) -> Self {
        Self {
            client,
            releases_on_exit: AtomicBool::new(false),
            holds: Mutex::default(),
        }
    }

    fn get(&self, number: f64) -> Option<Arc<Hold>> {
        self.holds.lock().get(&(number as u64)).cloned()
    }

    fn remove(&self, number: u64) -> Option<Arc<Hold>> {
        self.holds.lock().remove(&number)
    }

    pub fn release_on_exit(&self) {
        self.releases_on_exit.store(true, Ordering::Relaxed);
    }

    /// Releases all of them in the background, or leaves them to their TTL if the user wants that.
    pub fn end_all(&self) {
        let holds = std::mem::take(&mut *self.holds.lock());
        for hold in holds.into_values() {
            if !self.releases_on_exit.load(Ordering::Relaxed) {
                self.client.leave(&hold);
                continue;
            }
            let ending = Arc::clone(&self.client).end(hold);
            self.client.host().spawn(Box::pin(async move {
                // A lock that cannot be released expires by its TTL.
                let _ = ending.await;
            }));
        }
    }

    /// Waits until none of them is held any more.
    pub async fn until_not_held(&self) {
        let holds: Vec<_> = self.holds.lock().values().cloned().collect();
        for hold in holds {
            self.client.until_not_held(&hold).await;
        }
    }
}

/// Dropped when JavaScript has lost the backend: its objects were collected, or the environment ends.
impl Drop for Operations {
    fn drop(&mut self) {
        if self.environment.has_ended() || !self.is_shared {
            // Nobody else can see the locks of a backend that is not shared.
            self.held.end_all();
        } else if !self.taken_at_once && !self.held.holds.lock().is_empty() {
            self.environment.adopt(&self.held);
        }
        // `js/lock/held.js` keeps the locks that only JavaScript can extend or release.
    }
}

/// `[maxRetries, retryDelayMs, exponential, jitter, timeoutMs, maxDelayMs, maxHoldMs, minHoldMs,
/// sharing]`; Infinity stands for no limit. `sharing`: see [`access`]. `jitter`: 0 none, 1 equal, 2 full. The defaults are JavaScript's.
pub(super) type Limits = [f64; 9];

fn wait_policy(limits: Limits) -> WaitPolicy {
    let [
        max_retries,
        retry_delay_ms,
        exponential,
        jitter,
        timeout_ms,
        max_delay_ms,
        ..,
    ] = limits;
    WaitPolicy {
        retry: RetryPolicy {
            retry_delay_ms,
            max_delay_ms,
            backoff: if exponential == 0.0 {
                Backoff::Fixed
            } else {
                Backoff::Exponential
            },
            jitter: match jitter as u32 {
                0 => Jitter::None,
                1 => Jitter::Equal,
                _ => Jitter::Full,
            },
        },
        // The cast saturates, and NaN becomes 0.
        max_retries: max_retries as u32,
        timeout: limit(timeout_ms),
    }
}

/// The index of the limit of a shared lock: see [`access`].
const SHARING: usize = 8;

fn hold_policy(ttl: Ttl, auto_extend: bool, limits: Limits) -> HoldPolicy {
    let [.., max_hold_ms, min_hold_ms, _] = limits;
    HoldPolicy {
        ttl,
        auto_extend,
        max_hold: limit(max_hold_ms),
        min_hold: limit(min_hold_ms),
    }
}

fn limit(ms: f64) -> Option<Duration> {
    ms.is_finite().then(|| milliseconds(ms))
}

/// Numbers the hold that a wait ended with, and makes the reply.
fn outcome(settled: Settled<Option<Arc<Hold>>>, held: &Arc<Held>, outbox: &Outbox) -> Outcome {
    let reply = match settled.result {
        Ok(Some(hold)) => {
            let number = outbox.next_id();
            let text = reply::held(&hold, number);
            held.holds.lock().insert(number, hold);
            let held = Arc::clone(held);
            Reply::from(text).or_else(move || {
                if let Some(hold) = held.remove(number) {
                    drop(held.client.abandon(&hold));
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

/// Numbers the holds that a wait for several keys ended with, and makes the reply.
fn outcome_of_several(
    settled: Settled<Option<Vec<Arc<Hold>>>>,
    held: &Arc<Held>,
    outbox: &Outbox,
) -> Outcome {
    let reply = match settled.result {
        Ok(Some(holds)) => {
            let numbered: Vec<_> = holds
                .into_iter()
                .map(|hold| (outbox.next_id(), hold))
                .collect();
            let text = reply::held_together(&numbered);
            let numbers: Vec<_> = numbered.iter().map(|(number, _)| *number).collect();
            held.holds.lock().extend(numbered);
            let held = Arc::clone(held);
            Reply::from(text).or_else(move || {
                for hold in numbers.into_iter().filter_map(|number| held.remove(number)) {
                    drop(held.client.abandon(&hold));
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

fn keys_and_ttl(keys: &str, ttl_ms: f64) -> Result<(Vec<Key>, Ttl)> {
    let keys: Vec<String> = serde_json::from_str(keys)
        .map_err(|_| Error::invalid_argument("keys must be an array of strings"))?;
    let keys: Result<_> = keys.iter().map(|key| Key::new(key)).collect();
    Ok((keys?, Ttl::from_number(ttl_ms)?))
}

impl Operations {
    fn start_hold(
        &self,
        holding: impl Future<Output = Settled<Option<Arc<Hold>>>> + Send + 'static,
        cancel: Option<CancellationToken>,
    ) -> Answer {
        let (held, outbox) = (Arc::clone(&self.held), Arc::clone(&self.outbox));
        self.start(
            async move { outcome(holding.await, &held, &outbox) },
            cancel,
        )
    }

    fn start_several(
        &self,
        holding: impl Future<Output = Settled<Option<Vec<Arc<Hold>>>>> + Send + 'static,
        cancel: Option<CancellationToken>,
    ) -> Answer {
        let (held, outbox) = (Arc::clone(&self.held), Arc::clone(&self.outbox));
        self.start(
            async move { outcome_of_several(holding.await, &held, &outbox) },
            cancel,
        )
    }

    /// `caller`: see `AcquireRequest::caller`.
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
        limits: Limits,
    ) -> Answer {
        exit::prepare();
        checked(key_and_ttl(key, ttl_ms), |(key, ttl)| {
            let request = HoldRequest {
                key,
                access: access(limits[SHARING]),
                policy: hold_policy(ttl, auto_extend, limits),
                wait: wait.then(|| wait_policy(limits)),
                caller: caller as u64,
            };
            let cancel = cancellable.then(CancellationToken::new);
            let holding = Arc::clone(&self.client).hold(request, cancel.clone());
            self.start_hold(holding, cancel)
        })
    }

    /// Releases the lock. Unless `knows_loss`, only while the lock is certainly held. With `takes` a
    /// waiter may be answered along with this, without a wake-up of the event loop.
    pub fn end_hold(&self, number: f64, takes: bool, knows_loss: bool) -> Answer {
        let hold = match self.held.holds.lock().entry(number as u64) {
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
        let mut answer = self.outbox.in_turn(&self.runtime, || {
            self.poll_once(self.outside_of_single(), ending, None)
        });
        if let Either::A(released) = &mut answer
            && takes
            && released == reply::DONE
            && let Some((id, reply)) = self.outbox.queue.take_single()
        {
            let other = self.outbox.hand_over(id, reply);
            reply::append(released, id, &other);
        }
        self.bring_replies();
        answer
    }

    /// Returns for how many milliseconds the lock is certainly still held. Negative if it is not.
    pub fn held_for(&self, number: f64) -> f64 {
        let left = self
            .held
            .get(number)
            .and_then(|hold| self.client.held_for(&hold));
        left.map_or(-1.0, |left| left.as_secs_f64() * 1000.0)
    }

    /// Whether the grant reached its caller too late to be of use.
    pub fn is_late(&self, number: f64) -> bool {
        self.held
            .get(number)
            .is_none_or(|hold| self.client.is_late(&hold))
    }
}

#[napi]
impl NativeBackend {
    /// Releases a hold that came too late for its caller, and continues the wait.
    #[napi]
    pub fn hold_again(&self, number: f64, cancellable: bool, caller: f64) -> Answer {
        let Some(hold) = self.held.remove(number as u64) else {
            return Either::A(reply::locked());
        };
        let cancel = cancellable.then(CancellationToken::new);
        let holding = Arc::clone(&self.client).hold_again(hold, caller as u64, cancel.clone());
        self.start_hold(holding, cancel)
    }

    /// Waits for several keys, given as a JSON array, and holds all of them.
    #[napi]
    #[allow(
        clippy::too_many_arguments,
        reason = "the same arguments as those of `hold`"
    )]
    pub fn hold_several(
        &self,
        keys: String,
        ttl_ms: f64,
        wait: bool,
        auto_extend: bool,
        cancellable: bool,
        caller: f64,
        limits: Float64Array,
    ) -> Answer {
        exit::prepare();
        let mut known: Limits = [f64::INFINITY; 9];
        for (known, given) in known.iter_mut().zip(limits.iter()) {
            *known = *given;
        }
        let limits = known;
        checked(keys_and_ttl(&keys, ttl_ms), |(keys, ttl)| {
            let policy = hold_policy(ttl, auto_extend, limits);
            let wait = wait.then(|| wait_policy(limits));
            let access = access(limits[SHARING]);
            let request = SeveralRequest::new(keys, access, policy, wait, caller as u64);
            let cancel = cancellable.then(CancellationToken::new);
            let holding = Arc::clone(&self.client).hold_several(request, cancel.clone());
            self.start_several(holding, cancel)
        })
    }

    /// Releases holds of several keys that came too late for their caller, and continues the wait.
    #[napi]
    pub fn hold_several_again(&self, numbers: Vec<f64>, cancellable: bool, caller: f64) -> Answer {
        let numbers = numbers.into_iter();
        let holds = numbers.filter_map(|number| self.held.remove(number as u64));
        let cancel = cancellable.then(CancellationToken::new);
        let client = Arc::clone(&self.client);
        let holding = client.hold_several_again(holds.collect(), caller as u64, cancel.clone());
        self.start_several(holding, cancel)
    }

    /// Releases a lock that nobody ever used.
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

    /// Returns the latest expiry that is known. 0 if the hold has ended.
    #[napi]
    pub fn hold_expires_at(&self, number: f64) -> f64 {
        let hold = self.held.get(number);
        hold.map_or(0.0, |hold| hold.expires_at_ms() as f64)
    }

    /// Returns why the lock is not certainly held any more. None while it is.
    #[napi]
    pub fn hold_lost(&self, number: f64) -> Option<String> {
        let lost = self.client.lost(&*self.held.get(number)?)?;
        Some(reply::error(&lost))
    }

    /// Sends a reply under the hold's number when the lock is lost (an error). With `beats` also after
    /// each heartbeat: `B`, with an error if it failed.
    #[napi]
    pub fn listen_hold(&self, number: f64, beats: bool) {
        let Some(hold) = self.held.get(number) else {
            return;
        };
        let number = number as u64;
        let outbox = Arc::clone(&self.outbox);
        let listener = Box::new(move |event: HoldEvent<'_>| match event {
            HoldEvent::Lost(error) => outbox.post(number, error.clone().into()),
            HoldEvent::Heartbeat(_) if !beats => {}
            HoldEvent::Heartbeat(Ok(())) => outbox.post(number, "B".to_owned().into()),
            HoldEvent::Heartbeat(Err(error)) => {
                outbox.post(number, format!("B{}", reply::error(error)).into());
            }
        });
        self.here(|| self.client.listen(&hold, listener));
    }
}
