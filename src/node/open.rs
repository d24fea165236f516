//! Backends by name.

use std::sync::Arc;

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use serde::de::DeserializeOwned;

use super::backend::{NativeBackend, Operations};
use super::bridge::Bridge;
use super::reply;
use super::runtime::{runtime, system_host};
use crate::backend::javascript::{JavascriptBackend, Replaced, SpiedBackend};
use crate::backend::memory::{Clock, MemoryBackend, MemoryConfig};
use crate::backend::{Backend, Warnings, firestore, postgres, redis, sqlite};
use crate::client::Client;
use crate::client::host::Host;
use crate::error::{Error, Result};

/// The backend, or the reply that says why there is none. `client`: the number under which a client
/// of the user is asked, where the backend uses one.
#[napi]
pub fn open(
    bridge: &Bridge,
    kind: String,
    config: String,
    client: f64,
) -> Either<NativeBackend, String> {
    or_reply(open_backend(bridge, &kind, &config, client as u64))
}

/// A backend that JavaScript has written itself, and is asked as number `target`.
#[napi]
pub fn open_own(bridge: &Bridge, target: f64, can_watch: bool) -> Either<NativeBackend, String> {
    let program = bridge.questions.to(target as u64);
    let backend = Arc::new(JavascriptBackend::new(program, can_watch));
    let host = Arc::clone(&bridge.host) as Arc<dyn Host>;
    or_reply(native(bridge, backend, host, true))
}

/// The same backend, where JavaScript, as number `target`, has replaced some operations.
#[napi]
pub fn open_spied(
    bridge: &Bridge,
    original: &NativeBackend,
    target: f64,
    acquire: bool,
    release: bool,
    extend: bool,
) -> Either<NativeBackend, String> {
    let program = JavascriptBackend::new(bridge.questions.to(target as u64), false);
    let replaced = Replaced {
        acquire,
        release,
        extend,
    };
    let backend = SpiedBackend::new(Arc::clone(&original.backend), program, replaced);
    let host = Arc::clone(original.client.host());
    or_reply(native(bridge, Arc::new(backend), host, true))
}

fn or_reply(opened: Result<NativeBackend>) -> Either<NativeBackend, String> {
    match opened {
        Ok(backend) => Either::A(backend),
        Err(error) => Either::B(reply::error(&error)),
    }
}

fn open_backend(bridge: &Bridge, kind: &str, config: &str, client: u64) -> Result<NativeBackend> {
    let _context = runtime()?.enter();
    let warnings = {
        let completions = Arc::downgrade(&bridge.completions);
        Warnings::new(move |text| {
            if let Some(completions) = completions.upgrade() {
                completions.warn(text);
            }
        })
    };
    let backend: Arc<dyn Backend> = match kind {
        "firestore" => Arc::new(firestore::FirestoreBackend::open(read(config)?, warnings)?),
        "memory" => match read::<MemoryConfig>(config)?.clock {
            Clock::System => Arc::new(MemoryBackend::new()),
            Clock::Javascript => {
                let clock = Arc::clone(&bridge.host);
                let backend = MemoryBackend::with_clock(move || clock.unix_ms());
                let host = Arc::clone(&bridge.host) as Arc<dyn Host>;
                return native(bridge, Arc::new(backend), host, true);
            }
        },
        "postgres" => Arc::new(postgres::PostgresBackend::open(
            read(config)?,
            warnings,
            bridge.event_loop.clone(),
        )?),
        "redis" => Arc::new(redis::RedisBackend::open(
            read(config)?,
            warnings,
            bridge.event_loop.clone(),
        )?),
        "redis-client" => {
            let client = bridge.questions.to(client);
            let backend = redis::RedisBackend::open_over_client(read(config)?, client)?;
            return native(bridge, Arc::new(backend), system_host()?, true);
        }
        "sqlite" => Arc::new(sqlite::SqliteBackend::open(read(config)?)?),
        _ => return Err(Error::invalid_argument("There is no backend of this kind")),
    };
    native(bridge, backend, system_host()?, false)
}

fn native(
    bridge: &Bridge,
    backend: Arc<dyn Backend>,
    host: Arc<dyn Host>,
    taken_at_once: bool,
) -> Result<NativeBackend> {
    Ok(NativeBackend(Arc::new(Operations {
        client: Client::new(Arc::clone(&backend), host),
        backend,
        completions: Arc::clone(&bridge.completions),
        runtime: runtime()?.handle().clone(),
        taken_at_once,
        held: Arc::default(),
    })))
}

/// What the JavaScript side wrote: an unknown or mistyped option is the user's mistake.
fn read<T: DeserializeOwned>(config: &str) -> Result<T> {
    serde_json::from_str(config)
        .map_err(|error| Error::invalid_argument(format!("Invalid backend options: {error}")))
}
