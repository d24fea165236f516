//! Opens backends by name.

use std::sync::Arc;

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use serde::de::DeserializeOwned;

use super::backend::NativeBackend;
use super::bridge::Bridge;
use super::hold::Held;
use super::operation::Operations;
use super::reply;
use super::runtime::{runtime, system_host};
use crate::backend::credentials::CredentialsProvider;
use crate::backend::javascript::JavascriptBackend;
use crate::backend::memory::{Clock, MemoryBackend, MemoryConfig};
use crate::backend::{Backend, Warnings, firestore, postgres, redis, sqlite};
use crate::client::Client;
use crate::client::host::Host;
use crate::error::{Error, Result};
use crate::lock::HolderLabel;

/// Opens a backend. Returns an error reply if that fails. `client` is the number by which JavaScript knows
/// the user's client, if the backend uses one. `label` is stored with the backend's locks.
#[napi]
pub fn open(
    bridge: &Bridge,
    kind: String,
    config: String,
    client: f64,
    label: Option<String>,
) -> Either<NativeBackend, String> {
    let label = label.map(|label| HolderLabel::new(&label)).transpose();
    or_reply(label.and_then(|label| open_backend(bridge, &kind, &config, client as u64, label)))
}

/// Opens the engine over a custom backend, which JavaScript knows by the number `target`.
#[napi]
pub fn open_custom(
    bridge: &Bridge,
    target: f64,
    can_watch: bool,
    supports_sharing: bool,
) -> Either<NativeBackend, String> {
    let program = bridge.questions.to(target as u64, false);
    let backend = Arc::new(JavascriptBackend::new(program, can_watch, supports_sharing));
    let host = Arc::clone(&bridge.host) as Arc<dyn Host>;
    let traits = Traits {
        needs_javascript: true,
        is_private: false,
    };
    or_reply(native(bridge, backend, host, None, traits))
}

fn or_reply(opened: Result<NativeBackend>) -> Either<NativeBackend, String> {
    match opened {
        Ok(backend) => Either::A(backend),
        Err(error) => Either::B(reply::error(&error)),
    }
}

fn open_backend(
    bridge: &Bridge,
    kind: &str,
    config: &str,
    client: u64,
    label: Option<HolderLabel>,
) -> Result<NativeBackend> {
    let _context = runtime()?.enter();
    let warnings = {
        let outbox = Arc::downgrade(&bridge.outbox);
        Warnings::new(move |text| {
            if let Some(outbox) = outbox.upgrade() {
                outbox.warn(text);
            }
        })
    };
    let mut host: Arc<dyn Host> = system_host()?;
    let mut traits = Traits::default();
    let backend: Arc<dyn Backend> = match kind {
        "firestore" => Arc::new(firestore::FirestoreBackend::open(read(config)?, warnings)?),
        "memory" => {
            traits.is_private = true;
            match read::<MemoryConfig>(config)?.clock {
                Clock::System => Arc::new(MemoryBackend::new()),
                Clock::Javascript => {
                    traits.needs_javascript = true;
                    host = Arc::clone(&bridge.host) as Arc<dyn Host>;
                    let clock = Arc::clone(&bridge.host);
                    Arc::new(MemoryBackend::with_clock(move || clock.unix_ms()))
                }
            }
        }
        "postgres" => {
            let mut config: postgres::PostgresConfig = read(config)?;
            config.credentials = credentials_provider(bridge, config.ask_credentials);
            Arc::new(postgres::PostgresBackend::open(config, warnings)?)
        }
        "redis" => {
            let config: redis::RedisConfig = read(config)?;
            let provider = credentials_provider(bridge, config.ask_credentials);
            let home = bridge.event_loop.clone();
            let config = config.with_credentials(provider);
            Arc::new(redis::RedisBackend::open(config, warnings, home)?)
        }
        "redis-client" => {
            traits.needs_javascript = true;
            let client = bridge.questions.to(client, false);
            let config = read(config)?;
            Arc::new(redis::RedisBackend::open_over_client(config, client)?)
        }
        "sqlite" => Arc::new(sqlite::SqliteBackend::open(read(config)?)?),
        _ => {
            return Err(Error::invalid_argument(
                "There is no native backend of this kind",
            ));
        }
    };
    native(bridge, backend, host, label, traits)
}

/// What the binding has to know of a backend: see [`Operations`].
#[derive(Clone, Copy, Default)]
struct Traits {
    needs_javascript: bool,
    is_private: bool,
}

fn native(
    bridge: &Bridge,
    backend: Arc<dyn Backend>,
    host: Arc<dyn Host>,
    label: Option<HolderLabel>,
    traits: Traits,
) -> Result<NativeBackend> {
    let client = Client::with_label(Arc::clone(&backend), host, label);
    Ok(NativeBackend(Arc::new(Operations {
        held: Arc::new(Held::new(Arc::clone(&client))),
        client,
        backend,
        outbox: Arc::clone(&bridge.outbox),
        runtime: runtime()?.handle().clone(),
        needs_javascript: traits.needs_javascript,
        is_private: traits.is_private,
        environment: Arc::clone(&bridge.environment),
    })))
}

/// Returns an object that asks the program for credentials, if the program passed a function for that.
fn credentials_provider(bridge: &Bridge, number: Option<u64>) -> Option<CredentialsProvider> {
    number.map(|number| CredentialsProvider::new(bridge.questions.to(number, true)))
}

/// Reads a configuration from JavaScript. An unknown or mistyped option is the user's mistake.
fn read<T: DeserializeOwned>(config: &str) -> Result<T> {
    serde_json::from_str(config)
        .map_err(|error| Error::invalid_argument(format!("Invalid backend options: {error}")))
}
