use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::backend::{AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, ReleaseOutcome};
use crate::error::{Error, Result};
use crate::foreign::Foreign;
use crate::lock::{Access, Key, LockId, Ttl};

/// A program that gives prepared answers in their order, and remembers the questions.
#[derive(Default)]
struct Program {
    answers: Mutex<Vec<Result<Value>>>,
    asked: Mutex<Vec<Value>>,
}

impl Program {
    fn with(answers: impl IntoIterator<Item = Result<Value>>) -> Arc<Self> {
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.reverse();
        Arc::new(Self {
            answers: Mutex::new(answers),
            ..Self::default()
        })
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().clone()
    }
}

impl Foreign for Program {
    fn ask(&self, question: Value) -> BoxFuture<'static, Result<Value>> {
        self.asked.lock().push(question);
        let answer = self.answers.lock().pop();
        Box::pin(async move { answer.unwrap_or_else(|| Err(Error::internal("no more"))) })
    }
}

fn request() -> AcquireRequest {
    AcquireRequest {
        key: Key::new("k").unwrap(),
        lock_id: LockId::generate(),
        ttl: Ttl::from_number(1000.0).unwrap(),
        label: None,
        caller: 3,
        access: Access::Exclusive,
        mark: None,
    }
}

#[tokio::test]
async fn operations_are_questions() {
    let program = Program::with([
        Ok(json!({ "ok": true, "expiresAtMs": 12.5 })),
        Ok(json!({ "ok": false })),
        Ok(json!({ "ok": true, "expiresAtMs": 7 })),
        Ok(json!({ "ok": false, "expired": true })),
        Ok(json!("nonsense")),
    ]);
    let backend = JavascriptBackend::new(program.clone(), false, false);
    let request = request();
    let granted = backend.acquire(&request).await.unwrap();
    assert!(matches!(
        granted,
        AcquireOutcome::Acquired {
            expires_at_ms: 12,
            ..
        }
    ));
    let refused = backend.acquire(&request).await.unwrap();
    assert_eq!(refused, AcquireOutcome::Locked(None));
    let extended = backend.extend(request.lock_id, request.ttl).await.unwrap();
    assert_eq!(extended, ExtendOutcome::Extended { expires_at_ms: 7 });
    let missed = backend.release(request.lock_id.into()).await.unwrap();
    assert_eq!(
        missed,
        ReleaseOutcome::Missed(crate::backend::Miss::Expired)
    );
    assert!(backend.release(request.lock_id.into()).await.is_err());
    let id = request.lock_id.as_str();
    assert_eq!(
        program.asked()[0],
        json!({ "op": "acquire", "id": id, "key": "k", "ttlMs": 1000, "caller": 3 })
    );
    assert_eq!(
        program.asked()[2],
        json!({ "op": "extend", "id": id, "ttlMs": 1000 })
    );
    assert!(backend.watch(&request.key).is_none());
}

#[tokio::test]
async fn a_watch_asks_until_it_is_answered_and_says_when_it_ends() {
    let program = Program::with([Ok(json!(null)), Err(Error::internal("cannot"))]);
    let backend = JavascriptBackend::new(program.clone(), true, false);
    let mut watch = backend.watch(&Key::new("k").unwrap()).unwrap();
    watch.changed().await;
    let waiting = tokio::time::timeout(std::time::Duration::from_millis(20), watch.changed());
    assert!(waiting.await.is_err(), "a failed watch waits for ever");
    drop(watch);
    let ops: Vec<_> = program.asked().iter().map(|it| it["op"].clone()).collect();
    assert_eq!(ops, ["watch", "watch", "unwatch"]);
}
