//! The binding to Node.js. Thin: convert, call, hand back.
//!
//! A call returns its reply at once when the operation needs no waiting, else a number; the reply
//! then comes through the [`Bridge`](bridge::Bridge), many in one wake-up of the JavaScript thread.
//! Where it pays, sockets are served by Node's own [`event_loop`] instead of the I/O threads.
//! Replies are flat strings ([`reply`]): JavaScript builds objects far cheaper than N-API does.

pub mod backend;
pub mod bridge;
#[cfg_attr(not(unix), path = "no_event_loop.rs")]
mod event_loop;
pub mod functions;
pub mod open;
#[cfg(unix)]
mod panics;
pub mod redis;
pub mod reply;
pub mod runtime;
#[cfg(unix)]
mod uv;
