//! What Redis may answer, as everything that reads answers reads it.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use redis::{Value, parse_redis_value};
use syncguard::backend::redis::fuzzing as redis_backend;
use syncguard::backend::{AcquireOutcome, LockRecord};
use syncguard::lock::fence::FENCE_MAX;
use syncguard::lock::ttl::MAX_TTL_MS;

const PREFIX: &str = "syncguard";
const SECRET: &str = "s3cret";

fuzz_target!(|data: &[u8]| {
    let value = parse_redis_value(data).unwrap_or_else(|_| Value::BulkString(data.to_vec()));
    let reply = || value.clone();
    match redis_backend::acquired(reply()) {
        Ok(AcquireOutcome::Acquired { fence, .. }) => assert!(fence.value() <= FENCE_MAX),
        Ok(AcquireOutcome::Locked(holder)) => {
            let limit = Duration::from_millis(MAX_TTL_MS);
            assert!(holder.is_none_or(|holder| holder.free_in <= limit));
        }
        Err(error) => assert!(error.outcome_unknown),
    }
    let _ = redis_backend::released(reply());
    let _ = redis_backend::extended(reply());
    let _ = redis_backend::yes_or_no(reply());
    if let Ok(Some(record)) = redis_backend::found(reply()) {
        check(&record);
    }
    if let Ok(page) = redis_backend::page(reply(), PREFIX) {
        page.locks.iter().for_each(check);
    }
    if let Ok(holders) = redis_backend::holders(reply(), PREFIX, "k") {
        holders.iter().for_each(check);
    }
    redis_backend::generation(data);
    let text = redis_backend::text(reply()).unwrap_or_default();
    let _ = redis_backend::cluster(reply(), &text);
    for finding in redis_backend::findings(text.clone()) {
        assert!(!finding.value.contains('\n'));
    }
    // Of what a server says in an error, nothing but the first word is passed on.
    let error = redis_backend::server_error(&text);
    let first = text.split([' ', '\n']).next().unwrap_or_default();
    assert!(
        !error.said().contains(SECRET) || first.contains(SECRET),
        "{error:?}"
    );
});

fn check(record: &LockRecord) {
    assert!(record.fence.value() <= FENCE_MAX);
    assert_eq!(record.lock_id.as_str().len(), 22);
}
