//! Waits for locks and holds them, for JavaScript, which refers to a hold by its number.

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
    /// Whether the locks are released when the environment ends.
    releases_on_exit: AtomicBool,
    /// The holds by their numbers.
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

    /// Gives the hold a number, and makes the reply. The lock is released if JavaScript does not confirm it.
    fn hand_over(self: &Arc<Self>, hold: Arc<Hold>, outbox: &Outbox) -> Reply {
        let number = outbox.next_id();
        let text = reply::held(&hold, number);
        self.holds.lock().insert(number, hold);
        let held = Arc::clone(self);
        Reply::from(text).or_else(move || held.abandon(number))
    }

    /// Does the same for the holds of several keys.
    fn hand_over_several(self: &Arc<Self>, holds: Vec<Arc<Hold>>, outbox: &Outbox) -> Reply {
        let holds = holds.into_iter();
        let numbered: Vec<_> = holds.map(|hold| (outbox.next_id(), hold)).collect();
        let text = reply::held_several(&numbered);
        let numbers: Vec<_> = numbered.iter().map(|(number, _)| *number).collect();
        self.holds.lock().extend(numbered);
        let held = Arc::clone(self);
        Reply::from(text).or_else(move || {
            for number in numbers {
                held.abandon(number);
            }
        })
    }

    fn abandon(&self, number: u64) {
        if let Some(hold) = self.remove(number) {
            drop(self.client.abandon(&hold));
        }
    }

    pub fn release_on_exit(&self) {
        self.releases_on_exit.store(true, Ordering::Relaxed);
    }

    /// Releases all locks in the background, or leaves them to expire if the backend's option
    /// `releaseOnExit` is false.
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

    /// Waits until each of the holds has ended or its lock is no longer certainly held.
    pub async fn until_not_held(&self) {
        let holds: Vec<_> = self.holds.lock().values().cloned().collect();
        for hold in holds {
            self.client.until_not_held(&hold).await;
        }
    }
}

/// Runs when JavaScript no longer has the backend: its objects were garbage collected, or the environment
/// has ended.
impl Drop for Operations {
    fn drop(&mut self) {
        if self.environment.has_ended() || self.is_private {
            self.held.end_all();
        } else if !self.needs_javascript && !self.held.holds.lock().is_empty() {
            self.environment.adopt(&self.held);
        }
        // Locks that only JavaScript can extend or release are kept alive by `js/lock/held.js`.
    }
}

/// The limits of a wait and of a hold, as `js/lock/config.js` writes them: `[maxRetries, retryDelayMs,
/// exponential, jitter, timeoutMs, maxDelayMs, maxHoldMs, minHoldMs, sharing]`. Infinity stands for no
/// limit. `jitter` is 0 for none, 1 for equal and 2 for full. For `sharing`, see [`access`].
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
        // The cast limits the number to the range of `u32`. NaN becomes 0.
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

fn keys_and_ttl(keys: &str, ttl_ms: f64) -> Result<(Vec<Key>, Ttl)> {
    let keys: Vec<String> = serde_json::from_str(keys)
        .map_err(|_| Error::invalid_argument("keys must be an array of strings"))?;
    let keys: Result<_> = keys.iter().map(|key| Key::new(key)).collect();
    Ok((keys?, Ttl::from_number(ttl_ms)?))
}

impl Operations {
    /// Starts a wait. `hand_over` makes the reply with what was acquired.
    fn start_hold<T: 'static>(
        &self,
        holding: impl Future<Output = Settled<Option<T>>> + Send + 'static,
        hand_over: fn(&Arc<Held>, T, &Outbox) -> Reply,
        cancel: Option<CancellationToken>,
    ) -> Answer {
        let (held, outbox) = (Arc::clone(&self.held), Arc::clone(&self.outbox));
        self.start(
            async move { Outcome::of(holding.await, |it| hand_over(&held, it, &outbox)) },
            cancel,
        )
    }

    /// Acquires the lock and holds it. For `caller`, see `AcquireRequest::caller`.
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
            self.start_hold(holding, Held::hand_over, cancel)
        })
    }

    /// Releases the lock. Unless `knows_loss`, this is refused if the lock is no longer certainly held. If
    /// `may_carry`, the answer may carry the reply to the next waiter, which saves a wake-up of the event
    /// loop.
    pub fn end_hold(&self, number: f64, may_carry: bool, knows_loss: bool) -> Answer {
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
            && may_carry
            && released == reply::DONE
            && let Some((id, reply)) = self.outbox.queue.take_single()
        {
            let other = self.outbox.hand_over(id, reply);
            reply::append(released, id, &other);
        }
        self.wake_for_replies();
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

    /// Returns whether the grant reached its caller too late to be of use.
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
        self.start_hold(holding, Held::hand_over, cancel)
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
            self.start_hold(holding, Held::hand_over_several, cancel)
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
        self.start_hold(holding, Held::hand_over_several, cancel)
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

    /// Sends an error reply under the hold's number when the lock is lost. If `with_heartbeats`, also
    /// sends `B` after each heartbeat, followed by an error if it failed.
    #[napi]
    pub fn listen_hold(&self, number: f64, with_heartbeats: bool) {
        let Some(hold) = self.held.get(number) else {
            return;
        };
        let number = number as u64;
        let outbox = Arc::clone(&self.outbox);
        let listener = Box::new(move |event: HoldEvent<'_>| match event {
            HoldEvent::Lost(error) => outbox.post(number, error.clone().into()),
            HoldEvent::Heartbeat(_) if !with_heartbeats => {}
            HoldEvent::Heartbeat(Ok(())) => outbox.post(number, "B".to_owned().into()),
            HoldEvent::Heartbeat(Err(error)) => {
                outbox.post(number, format!("B{}", reply::error(error)).into());
            }
        });
        self.in_turn(|| self.client.listen(&hold, listener));
    }
}
