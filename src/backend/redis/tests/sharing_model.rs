//! Compares all operations on a shared key with a model that lists the holders and the mark.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use serde_json::{Value as Json, json};

use super::client::Forward;
use super::server::{Server, request, ttl};
use crate::backend::redis::RedisBackend;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, LookupQuery, ReleaseOutcome,
};
use crate::error::Result;
use crate::foreign::Foreign;
use crate::lock::share::MARK_LEASE_MS;
use crate::lock::time::TIME_TOLERANCE_MS;
use crate::lock::{Access, Key, LockId};

const NOW: u64 = 1_700_000_000_000;
const TTL_MS: u64 = 600;

/// Runs scripts on a real server with another clock. Redis removes nothing meanwhile, so the scripts meet
/// all that has expired: each TTL is in seconds.
struct OtherClock {
    server: Forward,
    now_ms: Arc<AtomicU64>,
}

impl Foreign for OtherClock {
    fn ask(&self, mut question: Json) -> BoxFuture<'static, Result<Json>> {
        let now_ms = self.now_ms.load(Ordering::SeqCst);
        let time = format!("{{{}, {}}}", now_ms / 1000, now_ms % 1000 * 1000);
        let code = question["code"].as_str().unwrap();
        let code = code
            .replace("redis.call('TIME')", &time)
            .replace("'PX'", "'EX'");
        question["sha"] = json!(redis::Script::new(&code).get_hash());
        question["code"] = json!(code);
        self.server.ask(question)
    }
}

struct Held {
    id: LockId,
    expires_at_ms: u64,
    /// None if the lock is exclusive.
    slot: Option<u32>,
}

impl Held {
    /// Redis would remove an exclusive lock when its TTL ends. If it is still there, it has the tolerance.
    fn until(&self) -> u64 {
        let tolerance = self.slot.map_or(TIME_TOLERANCE_MS, |_| 0);
        self.expires_at_ms + tolerance
    }
}

struct Model {
    server: Server,
    backend: RedisBackend,
    key: Key,
    clock: Arc<AtomicU64>,
    now: u64,
    last_fence: u64,
    /// All that were ever acquired.
    known: Vec<LockId>,
    held: Vec<Held>,
    mark: Option<(LockId, u64)>,
    marks: [LockId; 2],
}

/// What to do, with which of some values, and after how many milliseconds.
type Step = (u8, usize, u64);

impl Model {
    async fn step(&mut self, (what, which, wait): Step) -> TestCaseResult {
        self.now += wait;
        self.clock.store(self.now, Ordering::SeqCst);
        let now = self.now;
        self.held.retain(|held| held.until() > now);
        let target = self.known.len().checked_sub(1 + which);
        let target = target.map(|at| self.known[at]);
        let mark = self.marks[which % 2];
        match (what, target) {
            (0..=4, _) => {
                let limit = which as u32 + 1;
                self.acquire(Access::Shared { limit }, None, wait).await?;
            }
            (5, _) => self.acquire(Access::Exclusive, None, wait).await?,
            (6, _) => self.acquire(Access::Exclusive, Some(mark), wait).await?,
            (7, _) => {
                self.backend.unmark(&self.key, mark).await.unwrap();
                self.mark = self.mark.filter(|(id, _)| *id != mark);
            }
            (8 | 9, Some(id)) => self.release(id).await?,
            (_, Some(id)) => self.extend(id, wait).await?,
            (_, None) => {}
        }
        self.compare().await
    }

    async fn acquire(&mut self, access: Access, mark: Option<LockId>, more: u64) -> TestCaseResult {
        let request = AcquireRequest {
            access,
            mark,
            ..request(self.key.as_str(), (TTL_MS + more) as u32)
        };
        let is_exclusive = self.held.iter().any(|held| held.slot.is_none());
        let is_marked = !is_exclusive && self.mark.is_some_and(|(_, until)| until > self.now);
        let fits_at = |now| {
            let live = self.held.iter().filter(|held| held.until() > now);
            access.admits(live.count() as u32) && !(is_exclusive && access.is_shared())
        };
        let is_kept_out = is_marked && access.is_shared();
        let fits = fits_at(self.now) && !is_kept_out;
        match self.backend.acquire(&request).await.unwrap() {
            AcquireOutcome::Acquired {
                fence,
                expires_at_ms,
                share,
            } => {
                prop_assert!(fits);
                self.last_fence += 1;
                prop_assert_eq!(fence.value(), self.last_fence);
                prop_assert_eq!(expires_at_ms, self.now + TTL_MS + more);
                let is_free = |slot: &u32| self.held.iter().all(|held| held.slot != Some(*slot));
                let slot = access.is_shared().then(|| (0..).find(is_free).unwrap());
                prop_assert_eq!(share.map(|share| share.slot), slot);
                self.held.push(Held {
                    id: request.lock_id,
                    expires_at_ms,
                    slot,
                });
                let holders = share.map_or(1, |share| share.holders as usize);
                prop_assert_eq!(holders, self.held.len());
                if slot.is_none() {
                    self.mark = None;
                }
                self.known.push(request.lock_id);
            }
            AcquireOutcome::Locked(None) => prop_assert!(!fits && is_exclusive),
            AcquireOutcome::Locked(Some(holder)) => {
                prop_assert!(!fits);
                prop_assert_eq!(holder.is_shared, !is_exclusive);
                let free_at = self.now + holder.free_in.as_millis() as u64;
                if is_kept_out {
                    prop_assert_eq!(self.mark.map(|(_, until)| until), Some(free_at));
                } else if !is_exclusive {
                    prop_assert!(fits_at(free_at) && !fits_at(free_at - 1));
                    prop_assert_eq!(holder.expires_at_ms, free_at);
                }
                if let Some(id) = mark.filter(|_| !is_exclusive) {
                    self.mark = Some((id, self.now + MARK_LEASE_MS));
                }
            }
        }
        Ok(())
    }

    async fn release(&mut self, id: LockId) -> TestCaseResult {
        let at = self.held.iter().position(|held| held.id == id);
        let outcome = self.backend.release(id.into()).await.unwrap();
        prop_assert_eq!(outcome == ReleaseOutcome::Released, at.is_some());
        if let Some(at) = at {
            self.held.remove(at);
        }
        Ok(())
    }

    async fn extend(&mut self, id: LockId, more: u64) -> TestCaseResult {
        let new_ttl = TTL_MS / 2 + more;
        let outcome = self.backend.extend(id, ttl(new_ttl as u32)).await.unwrap();
        let held = self.held.iter_mut().find(|held| held.id == id);
        let expected = held.map(|held| {
            held.expires_at_ms = self.now + new_ttl;
            held.expires_at_ms
        });
        match outcome {
            ExtendOutcome::Extended { expires_at_ms } => {
                prop_assert_eq!(Some(expires_at_ms), expected);
            }
            ExtendOutcome::Missed(_) => prop_assert_eq!(expected, None),
        }
        Ok(())
    }

    async fn compare(&self) -> TestCaseResult {
        let listed = self.backend.list(None, 100).await.unwrap().locks;
        let mut found: Vec<_> = listed
            .iter()
            .map(|lock| {
                (
                    lock.lock_id,
                    lock.expires_at_ms,
                    lock.share.map(|share| share.slot),
                )
            })
            .collect();
        let mut expected: Vec<_> = self
            .held
            .iter()
            .map(|held| (held.id, held.expires_at_ms, held.slot))
            .collect();
        found.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
        let locked = self.backend.is_locked(&self.key).await.unwrap();
        prop_assert_eq!(locked, !self.held.is_empty());
        let query = LookupQuery::Key(self.key.clone());
        let found = self.backend.lookup(&query).await.unwrap();
        let last = self.held.iter().map(|held| held.expires_at_ms).max();
        prop_assert_eq!(found.map(|lock| lock.expires_at_ms), last);
        // Other implementations go by the record's own time.
        if let Some(last) = last {
            let stored: String = self.server.run(&["GET", "syncguard:k"]).await;
            let stored: Json = serde_json::from_str(&stored).unwrap();
            prop_assert_eq!(stored["expiresAtMs"].as_u64(), Some(last));
        }
        Ok(())
    }
}

async fn run(steps: Vec<Step>) -> TestCaseResult {
    let server = Server::start(&[]).await;
    let clock = Arc::new(AtomicU64::new(NOW));
    let client = OtherClock {
        server: Forward {
            port: server.port,
            prefix: "",
        },
        now_ms: Arc::clone(&clock),
    };
    let config = serde_json::from_str("{}").unwrap();
    let mut model = Model {
        server,
        backend: RedisBackend::open_over_client(config, Arc::new(client)).unwrap(),
        key: Key::new("k").unwrap(),
        clock,
        now: NOW,
        last_fence: 0,
        known: Vec::new(),
        held: Vec::new(),
        mark: None,
        marks: [LockId::generate(), LockId::generate()],
    };
    for step in steps {
        model.step(step).await?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn holders_and_marks_are_those_of_a_model(
        steps in prop::collection::vec((0u8..12, 0usize..6, 0u64..300), 1..80),
    ) {
        tokio::runtime::Runtime::new().unwrap().block_on(run(steps))?;
    }
}
