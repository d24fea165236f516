//! SyncGuard's core.
//!
//! - [`lock`]: what a lock is. Pure: keys, ids, fences, liveness, retry delays.
//! - [`backend`]: where locks are stored. One trait, one folder for each store.
//! - [`client`]: what callers do with a backend: wait for a lock, keep it alive, undo a lost acquire.
//! - [`event_loop`], [`foreign`]: what the core may ask of the program it is part of.
//! - [`node`]: the binding to Node.js, the only module that knows of it.
//!
//! Dependencies point one way: `node → client → backend → lock`.

pub mod backend;
pub mod client;
pub mod error;
pub mod event_loop;
pub mod foreign;
pub mod lock;
mod map;
#[cfg(feature = "node")]
pub mod node;
mod sync;
