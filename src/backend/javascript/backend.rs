//! The operations as questions to the program.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::watch::JavascriptWatch;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, Capabilities, ExtendOutcome, LockRecord, LookupQuery,
    Miss, Page, ReleaseOutcome, ReleaseRequest, Watch,
};
use crate::error::{Error, Result};
use crate::foreign::Foreign;
use crate::lock::share::UNLIMITED;
use crate::lock::{Access, Fence, Key, LockId, Share, Ttl};

pub struct JavascriptBackend {
    program: Arc<dyn Foreign>,
    can_watch: bool,
    supports_sharing: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Acquired {
    ok: bool,
    #[serde(default)]
    expires_at_ms: f64,
    slot: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mutated {
    ok: bool,
    #[serde(default)]
    expired: bool,
    #[serde(default)]
    expires_at_ms: f64,
}

impl Mutated {
    fn miss(&self) -> Miss {
        if self.expired {
            Miss::Expired
        } else {
            Miss::NotFound
        }
    }
}

impl JavascriptBackend {
    pub fn new(program: Arc<dyn Foreign>, can_watch: bool, supports_sharing: bool) -> Self {
        Self {
            program,
            can_watch,
            supports_sharing,
        }
    }

    async fn ask<T: DeserializeOwned>(&self, question: Value) -> Result<T> {
        let answer = self.program.ask(question).await?;
        serde_json::from_value(answer)
            .map_err(|_| Error::internal("The custom backend returned a result of the wrong form. Return what the LockBackend interface describes"))
    }
}

fn not_supported<T>() -> Result<T> {
    Err(Error::internal("The program asks its backend itself"))
}

#[async_trait]
impl Backend for JavascriptBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            supports_sharing: self.supports_sharing,
            ..Capabilities::default()
        }
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let mut question = json!({
            "op": "acquire",
            "id": request.lock_id.as_str(),
            "key": request.key.as_str(),
            "ttlMs": request.ttl.ms(),
            "caller": request.caller,
        });
        if let Access::Shared { limit } = request.access {
            question["limit"] = json!((limit != UNLIMITED).then_some(limit));
        }
        let answer: Acquired = self.ask(question).await?;
        if !answer.ok {
            return Ok(AcquireOutcome::Locked(None));
        }
        Ok(AcquireOutcome::Acquired {
            // A placeholder. The JavaScript side has the program's fence, if there is one.
            fence: Fence::after(0)?,
            expires_at_ms: answer.expires_at_ms as u64,
            // The slot is the smallest free one, so it tells how many others there are at least.
            share: request.access.is_shared().then(|| {
                let slot = answer.slot.unwrap_or(0);
                Share {
                    slot,
                    holders: slot.saturating_add(1),
                }
            }),
        })
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseOutcome> {
        let question = json!({ "op": "release", "id": request.lock_id.as_str() });
        let answer: Mutated = self.ask(question).await?;
        Ok(match answer {
            Mutated { ok: true, .. } => ReleaseOutcome::Released,
            missed => ReleaseOutcome::Missed(missed.miss()),
        })
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        let question = json!({ "op": "extend", "id": lock_id.as_str(), "ttlMs": ttl.ms() });
        let answer: Mutated = self.ask(question).await?;
        Ok(match answer {
            Mutated {
                ok: true,
                expires_at_ms,
                ..
            } => ExtendOutcome::Extended {
                expires_at_ms: expires_at_ms as u64,
            },
            missed => ExtendOutcome::Missed(missed.miss()),
        })
    }

    async fn is_locked(&self, _key: &Key) -> Result<bool> {
        not_supported()
    }

    async fn lookup(&self, _query: &LookupQuery) -> Result<Option<LockRecord>> {
        not_supported()
    }

    async fn list(&self, _after: Option<&str>, _limit: usize) -> Result<Page> {
        not_supported()
    }

    async fn force_release(&self, _key: &Key) -> Result<bool> {
        not_supported()
    }

    fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        let watch = || JavascriptWatch::new(Arc::clone(&self.program), key.clone());
        self.can_watch.then(|| Box::new(watch()) as Box<dyn Watch>)
    }

    async fn close(&self) {}
}
