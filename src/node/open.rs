//! Backends by name.

use std::sync::Arc;

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use serde::de::DeserializeOwned;

use super::backend::NativeBackend;
use super::bridge::Bridge;
use super::reply;
use super::runtime::runtime;
use crate::backend::{Backend, Warnings, firestore, memory, postgres, redis, sqlite};
use crate::client::Client;
use crate::error::{Error, Result};

/// The backend, or the reply that says why there is none.
#[napi]
pub fn open(bridge: &Bridge, kind: String, config: String) -> Either<NativeBackend, String> {
    match open_backend(bridge, &kind, &config) {
        Ok(backend) => Either::A(backend),
        Err(error) => Either::B(reply::error(&error)),
    }
}

fn open_backend(bridge: &Bridge, kind: &str, config: &str) -> Result<NativeBackend> {
    let runtime = runtime()?;
    let _context = runtime.enter();
    let completions = Arc::clone(&bridge.completions);
    let warnings = {
        let completions = Arc::downgrade(&completions);
        Warnings::new(move |text| {
            if let Some(completions) = completions.upgrade() {
                completions.warn(text);
            }
        })
    };
    let backend: Arc<dyn Backend> = match kind {
        "firestore" => Arc::new(firestore::FirestoreBackend::open(read(config)?, warnings)?),
        "memory" => Arc::new(memory::MemoryBackend::new()),
        "postgres" => Arc::new(postgres::PostgresBackend::open(read(config)?)?),
        "redis" => Arc::new(redis::RedisBackend::open(
            read(config)?,
            warnings,
            bridge.event_loop.clone(),
        )?),
        "sqlite" => Arc::new(sqlite::SqliteBackend::open(read(config)?)?),
        _ => return Err(Error::invalid_argument("There is no backend of this kind")),
    };
    Ok(NativeBackend::new(
        Client::new(backend),
        completions,
        runtime,
    ))
}

/// What the JavaScript side wrote: an unknown or mistyped option is the user's mistake.
fn read<T: DeserializeOwned>(config: &str) -> Result<T> {
    serde_json::from_str(config)
        .map_err(|error| Error::invalid_argument(format!("Invalid backend options: {error}")))
}
