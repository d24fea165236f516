//! The binding to Node.js. Thin: convert, call, hand back.
//!
//! A call returns its reply at once when the operation needs no waiting, else a number; the reply
//! then comes through the [`Bridge`](bridge::Bridge), many in one wake-up of the JavaScript thread.
//! Where it pays, sockets are served by Node's own [`event_loop`] instead of the I/O threads.
//! Replies are flat strings ([`reply`]): JavaScript builds objects far cheaper than N-API does.

// In test builds napi exports nothing.
#![cfg_attr(test, allow(dead_code))]

mod backend;
mod bridge;
mod calls;
#[cfg_attr(not(unix), path = "no_event_loop.rs")]
mod event_loop;
mod functions;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hold;
mod host;
mod open;
mod owed;
mod panics;
mod questions;
mod queue;
mod redis;
mod reply;
mod runtime;
#[cfg(unix)]
mod uv;
#[cfg(windows)]
mod windows;
