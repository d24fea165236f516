//! What the program may answer: a backend that the user wrote, and a Redis client of theirs.
#![no_main]

use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use syncguard::backend::javascript::JavascriptBackend;
use syncguard::backend::redis::RedisBackend;
use syncguard::backend::{AcquireRequest, Backend, LookupQuery};
use syncguard::error::Result;
use syncguard::foreign::Foreign;
use syncguard::lock::{Access, Key, LockId, Ttl};
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_all().build().unwrap());

struct Program(Value);

impl Foreign for Program {
    fn ask(&self, _question: Value) -> BoxFuture<'static, Result<Value>> {
        let answer = self.0.clone();
        Box::pin(async { Ok(answer) })
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(answer) = serde_json::from_slice::<Value>(data) else {
        return;
    };
    let program = Arc::new(Program(answer));
    let own = JavascriptBackend::new(Arc::clone(&program) as _, true, true);
    let config = serde_json::from_str(r#"{"cleanupInIsLocked":true}"#).unwrap();
    let over_client = RedisBackend::open_over_client(config, program).unwrap();
    RUNTIME.block_on(async {
        ask(&own, false).await;
        ask(&over_client, true).await;
    });
});

async fn ask(backend: &dyn Backend, must_be_undone: bool) {
    let key = Key::new("key").unwrap();
    let lock_id = LockId::parse("AAAAAAAAAAAAAAAAAAAAAA").unwrap();
    let ttl = Ttl::from_number(1000.0).unwrap();
    let request = AcquireRequest {
        key: key.clone(),
        lock_id,
        ttl,
        label: None,
        caller: 0,
        access: Access::Exclusive,
        mark: None,
    };
    if let Err(error) = backend.acquire(&request).await {
        // Only the server itself can say that nothing was done.
        let from_server = error.cause.is_some() || error.message.starts_with("Fence counter");
        assert!(
            error.outcome_unknown || from_server || !must_be_undone,
            "{error:?}"
        );
    }
    let _ = backend.release(lock_id.into()).await;
    let _ = backend.extend(lock_id, ttl).await;
    let _ = backend.is_locked(&key).await;
    let _ = backend.lookup(&LookupQuery::Key(key.clone())).await;
    let _ = backend.lookup(&LookupQuery::LockId(lock_id)).await;
    let _ = backend.list(None, 10).await;
    let _ = backend.force_release(&key).await;
    let _ = backend.report().await;
}
