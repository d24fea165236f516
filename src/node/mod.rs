//! The binding to Node.js. Thin: convert, call, hand back.
//!
//! A call returns its reply at once when the operation needs no waiting, else a number; the reply
//! then comes through the [`Bridge`](bridge::Bridge), many in one wake-up of the JavaScript thread.
//! Replies are flat strings ([`reply`]): JavaScript builds objects far cheaper than N-API does.

pub mod backend;
pub mod bridge;
pub mod functions;
pub mod open;
mod parked;
pub mod redis;
pub mod reply;
pub mod runtime;
