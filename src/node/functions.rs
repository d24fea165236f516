//! Functions that need no backend.

use napi_derive::napi;

use super::reply;
use crate::backend::redis::server_error;
use crate::lock::key::KeyBudget;
use crate::lock::{Key, LockId, hash, key};

/// Returns the version, which must be that of the package whose JavaScript calls.
#[napi]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

#[napi]
pub fn generate_lock_id() -> String {
    LockId::generate().as_str().to_owned()
}

#[napi]
pub fn hash_key(value: String) -> String {
    hash::hash_key(&value)
}

#[napi]
pub fn normalize_key(key: String) -> String {
    reply::now(Key::new(&key), |key| reply::text(key.as_str()))
}

#[napi]
pub fn check_lock_id(lock_id: String) -> String {
    reply::now(LockId::parse(&lock_id), |_| reply::boolean(true))
}

#[napi]
pub fn make_storage_key(
    prefix: String,
    key: String,
    limit_bytes: f64,
    reserve_bytes: f64,
) -> String {
    let budget = KeyBudget {
        limit_bytes: limit_bytes as usize,
        reserve_bytes: reserve_bytes as usize,
    };
    reply::now(key::storage_key(&prefix, &key, budget), reply::text)
}

/// Returns the error reply for an error of a Redis server, such as `READONLY You can't write`, which a user's
/// own client received.
#[napi]
pub fn redis_error(line: String) -> String {
    reply::error(&server_error(&line))
}
