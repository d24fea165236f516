//! Backends by name.

use std::sync::Arc;

use napi::bindgen_prelude::Either;
use napi_derive::napi;

use super::backend::NativeBackend;
use super::bridge::Bridge;
use super::reply;
use super::runtime::runtime;
use crate::backend::{Backend, Warnings, memory};
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
    let _ = (config, &warnings);
    let backend: Arc<dyn Backend> = match kind {
        "memory" => Arc::new(memory::MemoryBackend::new()),
        _ => return Err(Error::invalid_argument("There is no backend of this kind")),
    };
    Ok(NativeBackend::new(
        Client::new(backend),
        completions,
        runtime,
    ))
}
