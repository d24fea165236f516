//! What it takes to run the Redis scripts through a client that JavaScript has.

use napi_derive::napi;

use super::reply;
use crate::backend::redis::keys::Keyspace;
use crate::backend::redis::{json, scripts, server_error};
use crate::error::Result;
use crate::lock::{Key, LockId};

/// `{ name: code }` as JSON.
#[napi]
pub fn redis_scripts() -> String {
    let scripts: serde_json::Map<_, _> = scripts::all()
        .into_iter()
        .map(|(name, code)| (name.to_owned(), code.into()))
        .collect();
    serde_json::Value::from(scripts).to_string()
}

/// `[lock key, fence key, the key as it stands inside a JSON string]` as JSON.
#[napi]
pub fn redis_keys(prefix: String, key: String, cluster: bool) -> String {
    let keys = || -> Result<String> {
        let key = Key::new(&key)?;
        let keys = Keyspace::new(&prefix, cluster, "")?.lock_keys(&key)?;
        Ok(serde_json::json!([keys.lock, keys.fence, json::escape(key.as_str())]).to_string())
    };
    reply::now(keys(), reply::text)
}

#[napi]
pub fn redis_index_key(prefix: String, lock_id: String, cluster: bool) -> String {
    let key = || Keyspace::new(&prefix, cluster, "")?.index_key(LockId::parse(&lock_id)?);
    reply::now(key(), reply::text)
}

/// The error reply for what a server answered, such as `READONLY You can't write`.
#[napi]
pub fn redis_error(line: String) -> String {
    reply::error(&server_error(&line))
}
