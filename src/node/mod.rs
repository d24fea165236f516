//! The binding to Node.js. It converts arguments, calls the engine and returns replies.
//!
//! A call returns its reply at once if the operation need not wait. Otherwise it returns a number, and
//! the reply comes through the [`Bridge`](bridge::Bridge), with many others in one wake-up of the
//! JavaScript thread. Where it pays, sockets are served by Node's own [`event_loop`] instead of the I/O
//! threads. Replies are flat strings ([`reply`]), because JavaScript builds objects far cheaper than
//! N-API does.

// In test builds napi exports nothing.
#![cfg_attr(test, allow(dead_code))]

mod backend;
mod bridge;
mod calls;
mod environment;
#[cfg(unix)]
mod event_loop;
mod exit;
mod functions;
mod hold;
mod host;
mod open;
mod operation;
mod outbox;
mod panics;
mod questions;
mod queue;
mod reply;
mod runtime;
#[cfg(unix)]
mod uv;
#[cfg(windows)]
mod windows;

/// The functions that write replies for JavaScript, for the fuzz targets.
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    pub use super::reply::{acquired, error, extended, found, page, report};
}
