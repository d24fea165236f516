//! What callers do: they wait for locks, change their mind, hold, lose and release them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::cancelling::Cancelling;
use super::faults::OPERATION_LIMIT;
use super::invariants::MAX_UNDO_TIME;
use super::ledger::{Belief, Held, Ledger};
use super::operations::{Asked, Keys, Kind};
use super::policies::{self, Usage};
use super::random::Random;
use crate::backend::ReleaseOutcome;
use crate::client::host::Moment;
use crate::client::{
    Client, Grant, Hold, HoldEvent, HoldPolicy, HoldRequest, LockRequest, Settled, SeveralRequest,
    WaitPolicy,
};
use crate::lock::{Access, LockId, Ttl};

/// How long a caller waits for the end of an undo.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Caller {
    pub machine: usize,
    pub client: Arc<Client>,
    pub ledger: Arc<Ledger>,
    pub usage: Usage,
    /// How often it wants to hold several keys.
    pub sets_percent: u64,
    pub random: Random,
    pub longest_operation: Duration,
}

/// What a caller has requested.
#[derive(Clone, Copy)]
struct Request {
    keys: Keys,
    access: Access,
    policy: HoldPolicy,
    wait: Option<WaitPolicy>,
    deadline: Option<Moment>,
}

impl Caller {
    pub(super) async fn run(mut self) {
        for _ in 0..=self.random.below(4) {
            self.pause(400).await;
            let key = self.random.below(self.ledger.keys.len());
            match self.random.below(20) {
                0..=13 if self.random.chance(self.sets_percent) => self.hold_several().await,
                0..=13 => self.hold(key).await,
                14..=17 => self.acquire(key).await,
                18 => self.take_away(key).await,
                _ => self.look(key).await,
            }
        }
    }

    async fn pause(&mut self, ms: u64) {
        let duration = self.random.ms(0..ms.max(1));
        self.ledger.world.sleep(self.machine, duration).await;
    }

    fn begin(&self, key: usize, kind: Kind, limit: Duration) -> usize {
        let asked = self.asked(key, kind);
        self.ledger.begin(asked, Some(limit))
    }

    fn begin_with(&self, key: usize, lock_id: LockId, limit: Duration) -> usize {
        let asked = Asked {
            lock_id: Some(lock_id),
            ..self.asked(key, Kind::Use)
        };
        self.ledger.begin(asked, Some(limit))
    }

    fn asked(&self, key: usize, kind: Kind) -> Asked {
        Asked {
            machine: self.machine,
            keys: key.into(),
            access: Access::Exclusive,
            kind,
            lock_id: None,
        }
    }

    fn request(&mut self, keys: Keys) -> Request {
        let policy = policies::to_hold(&mut self.random);
        let wait = self
            .random
            .chance(80)
            .then(|| policies::to_wait(&mut self.random));
        Request {
            keys,
            access: self.usage.access(&mut self.random),
            policy,
            wait,
            deadline: wait.and_then(|wait| Some(self.ledger.world.now() + wait.timeout?)),
        }
    }

    /// Begins an operation that acquires locks to hold.
    fn begin_holding(&self, request: &Request, is_several: bool) -> usize {
        let kind = match request.wait.as_ref().map(policies::longest_delay) {
            Some(backoff) if is_several => Kind::WaitForSeveral { backoff },
            Some(backoff) => Kind::Wait { backoff },
            None if is_several => Kind::TrySeveral,
            None => Kind::TryHold,
        };
        let now = self.ledger.world.now();
        let limit = match request.wait {
            Some(_) => request.deadline.map(|deadline| deadline.since(now)),
            // What was acquired is released before the refusal.
            None if is_several && self.ledger.faults.calm => {
                Some(self.longest_operation + MAX_UNDO_TIME)
            }
            None if is_several => Some(self.longest_operation + PATIENCE),
            None => Some(self.longest_operation),
        };
        let asked = Asked {
            keys: request.keys,
            access: request.access,
            ..self.asked(0, kind)
        };
        self.ledger.begin(asked, limit)
    }

    async fn hold(&mut self, key: usize) {
        let request = self.request(key.into());
        let asked = HoldRequest {
            key: self.ledger.keys[key].clone(),
            access: request.access,
            policy: request.policy,
            wait: request.wait,
            caller: 0,
        };
        let mut id = self.begin_holding(&request, false);
        let cancel = self.random.chance(25).then(CancellationToken::new);
        let call = Arc::clone(&self.client).hold(asked, cancel.clone());
        let mut settled = self.cancelling(id, cancel, call).await;
        loop {
            let Ok(Some(hold)) = settled.result else {
                return self.not_granted(id, key, settled).await;
            };
            self.believe(id, &request, std::slice::from_ref(&hold));
            self.use_hold(key, &hold).await;
            let is_lost = self.client.lost(&hold).is_some();
            if !self.goes_on(is_lost) {
                return self.end_hold(key, hold).await;
            }
            self.ledger.let_go(hold.lock_id);
            id = self.begin_holding(&request, false);
            settled = Arc::clone(&self.client).hold_again(hold, 0, None).await;
        }
    }

    async fn hold_several(&mut self) {
        let count = self.ledger.keys.len();
        // In any order, and some of them twice.
        let numbers: Vec<usize> = (0..=self.random.below(count + 1))
            .map(|_| self.random.below(count))
            .collect();
        let request = self.request(numbers.iter().copied().collect());
        let names = numbers.iter().map(|key| self.ledger.keys[*key].clone());
        let (access, policy) = (request.access, request.policy);
        let asked = SeveralRequest::new(names.collect(), access, policy, request.wait, 0);
        let mut id = self.begin_holding(&request, true);
        let cancel = self.random.chance(25).then(CancellationToken::new);
        let call = Arc::clone(&self.client).hold_several(asked, cancel.clone());
        let mut settled = self.cancelling(id, cancel, call).await;
        loop {
            let Ok(Some(holds)) = settled.result else {
                return self.not_granted(id, numbers[0], settled).await;
            };
            let held = self.believe(id, &request, &holds);
            let used = self.random.below(held.len());
            let (key, hold) = &held[used];
            self.use_hold(*key, hold).await;
            let is_lost = holds.iter().any(|hold| self.client.lost(hold).is_some());
            if !self.goes_on(is_lost) {
                for (key, hold) in held {
                    self.end_hold(key, hold).await;
                }
                return;
            }
            for hold in &holds {
                self.ledger.let_go(hold.lock_id);
            }
            id = self.begin_holding(&request, true);
            settled = Arc::clone(&self.client)
                .hold_several_again(holds, 0, None)
                .await;
        }
    }

    /// Whether the caller wants to hold the same again.
    fn goes_on(&mut self, is_lost: bool) -> bool {
        let goes_on = self.random.chance(if is_lost { 50 } else { 5 });
        goes_on && !self.ledger.is_closing(self.machine)
    }

    fn cancelling<T>(
        &mut self,
        id: usize,
        cancel: Option<CancellationToken>,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Cancelling<T> {
        Cancelling {
            call: Box::pin(call),
            cancel,
            after: self.random.below(12),
            ledger: Arc::clone(&self.ledger),
            id,
        }
    }

    /// Notes what the caller was told. Returns the numbers of the keys, too.
    fn believe(
        &mut self,
        id: usize,
        request: &Request,
        holds: &[Arc<Hold>],
    ) -> Vec<(usize, Arc<Hold>)> {
        let numbered = holds.iter().filter_map(|hold| {
            let key = self.ledger.keys.iter().position(|key| *key == hold.key)?;
            Some((key, Arc::clone(hold)))
        });
        let held: Vec<_> = numbered.collect();
        let mut beliefs = Vec::with_capacity(held.len());
        for (key, hold) in &held {
            let told = self.random.chance(60).then(Arc::default);
            if let Some(told) = &told {
                self.listen(hold, Arc::clone(told));
            }
            beliefs.push(Belief {
                machine: self.machine,
                key: *key,
                lock_id: hold.lock_id,
                fence: hold.fence,
                access: request.access,
                share: hold.share,
                client: Arc::clone(&self.client),
                held: Held::Hold(Arc::clone(hold)),
                lasts: request.policy.auto_extend && request.policy.max_hold.is_none(),
                told,
            });
        }
        self.ledger.granted(id, beliefs);
        held
    }

    fn listen(&self, hold: &Arc<Hold>, told: Arc<AtomicBool>) {
        let listener = move |event: HoldEvent<'_>| {
            if let HoldEvent::Lost(_) = event {
                told.store(true, Ordering::Relaxed);
            }
        };
        self.client.listen(hold, Box::new(listener));
    }

    async fn not_granted<T>(&mut self, id: usize, key: usize, settled: Settled<Option<T>>) {
        let how = match &settled.result {
            Ok(_) => "another has it",
            Err(error) => &error.message,
        };
        self.ledger.finish(id, how);
        if let Some(undo) = settled.undo
            && self.random.chance(50)
        {
            let id = self.begin(key, Kind::Use, PATIENCE);
            undo.await;
            self.ledger.finish(id, "undone");
        }
    }

    async fn use_hold(&mut self, key: usize, hold: &Arc<Hold>) {
        for _ in 0..self.random.below(3) {
            let ms = self.random.pick(&[20, 500, 4000]);
            self.pause(ms).await;
            if self.random.chance(30) {
                let ttl = policies::ttl(&mut self.random);
                // A heartbeat may be in flight before it.
                let limit = OPERATION_LIMIT * 2;
                let id = self.begin_with(key, hold.lock_id, limit);
                let _ = self.client.extend(hold.lock_id, ttl).await;
                self.ledger.finish(id, "extended, perhaps");
            }
        }
    }

    async fn end_hold(&mut self, key: usize, hold: Arc<Hold>) {
        // Some callers never release: the lock lasts until the client is closed or the time is over.
        if self.random.chance(4) {
            return;
        }
        let lock_id = hold.lock_id;
        self.ledger.let_go(lock_id);
        // There may be a heartbeat before it, and what is in flight of the caller's.
        let id = self.begin_with(key, lock_id, self.longest_operation * 4);
        if self.random.chance(30) {
            let (client, ttl) = (Arc::clone(&self.client), policies::ttl(&mut self.random));
            let extending = async move { drop(client.extend(lock_id, ttl).await) };
            self.ledger.world.spawn(self.machine, Box::pin(extending));
            // It is sent before the release, or waits to be sent.
            if self.random.chance(50) {
                self.pause(2).await;
            }
        }
        // Some callers release the lock without ending the hold, which then finds nothing to release.
        let ended = if self.random.chance(10) {
            let key = self.ledger.keys[key].clone();
            let released = self.client.release(lock_id, Some(key)).await;
            let again = Arc::clone(&self.client).end(Arc::clone(&hold)).await;
            released.and(again)
        } else {
            Arc::clone(&self.client).end(Arc::clone(&hold)).await
        };
        match ended {
            Ok(ReleaseOutcome::Released) => {
                if let Some(shortest) = hold.policy.min_hold {
                    self.ledger.reserve(key, lock_id, shortest);
                }
            }
            // It was lost before it could be shortened to its remaining time.
            Ok(ReleaseOutcome::Missed(_)) if hold.policy.min_hold.is_some() => {
                self.ledger.excuse(lock_id);
            }
            Ok(ReleaseOutcome::Missed(_)) => {}
            Err(_) => self.ledger.excuse(lock_id),
        }
        self.ledger.finish(id, "given back");
    }

    async fn acquire(&mut self, key: usize) {
        let ttl = policies::ttl(&mut self.random);
        let cancel = self.random.chance(25).then(CancellationToken::new);
        let access = self.usage.access(&mut self.random);
        let asked = Asked {
            access,
            ..self.asked(key, Kind::Acquire)
        };
        let id = self.ledger.begin(asked, Some(self.longest_operation));
        let lock = LockRequest {
            access,
            ..LockRequest::exclusive(self.ledger.keys[key].clone(), ttl)
        };
        let call = Arc::clone(&self.client).acquire(lock, cancel.clone());
        let settled = self.cancelling(id, cancel, call).await;
        let Ok(Some(grant)) = settled.result else {
            return self.not_granted(id, key, settled).await;
        };
        let belief = Belief {
            machine: self.machine,
            key,
            lock_id: grant.lock_id,
            fence: grant.fence,
            access,
            share: grant.share,
            client: Arc::clone(&self.client),
            held: Held::Until(grant.valid_until),
            lasts: false,
            told: None,
        };
        self.ledger.granted(id, vec![belief]);
        let longest = self.use_grant(key, &grant).await;
        let ttl = longest.map_or(ttl, |longest| ttl.max(longest));
        self.end_grant(key, &grant, ttl).await;
    }

    /// The time for which it may have been extended.
    async fn use_grant(&mut self, key: usize, grant: &Grant) -> Option<Ttl> {
        self.pause(1000).await;
        let ttl = self
            .random
            .chance(30)
            .then(|| policies::ttl(&mut self.random));
        if let Some(ttl) = ttl {
            let lock_id = grant.lock_id;
            // It counts from now, should it be shorter, whatever becomes of it.
            let shorter = self.client.host().now() + ttl.duration();
            self.ledger.lasts_until(lock_id, |until| until.min(shorter));
            let id = self.begin_with(key, lock_id, self.longest_operation);
            let extended = self.client.extend(lock_id, ttl).await;
            self.ledger.finish(id, "extended, perhaps");
            match extended {
                Ok(Ok(extension)) => self.ledger.lasts_until(lock_id, |_| extension.valid_until),
                Ok(Err(_)) => self.ledger.lasts_until(lock_id, |_| grant.granted_at),
                Err(_) => {}
            }
        }
        self.pause(1000).await;
        ttl
    }

    async fn end_grant(&mut self, key: usize, grant: &Grant, ttl: Ttl) {
        let lock_id = grant.lock_id;
        let name = self.ledger.keys[key].clone();
        self.ledger.let_go(lock_id);
        match self.random.below(10) {
            0 => self.ledger.excuse(lock_id),
            1 if !self.ledger.is_closing(self.machine) => {
                self.client.disown(lock_id, &name, ttl);
            }
            _ => {
                let id = self.begin_with(key, lock_id, self.longest_operation);
                if self.client.release(lock_id, Some(name)).await.is_err() {
                    self.ledger.excuse(lock_id);
                }
                self.ledger.finish(id, "given back");
            }
        }
    }

    async fn take_away(&mut self, key: usize) {
        let id = self.begin(key, Kind::Use, self.longest_operation);
        let name = self.ledger.keys[key].clone();
        let _ = self.client.force_release(&name).await;
        self.ledger.finish(id, "taken away, perhaps");
    }

    async fn look(&mut self, key: usize) {
        let id = self.begin(key, Kind::Use, self.longest_operation);
        let name = self.ledger.keys[key].clone();
        let _ = self.client.is_locked(&name).await;
        self.ledger.finish(id, "seen");
    }
}
