//! SyncGuard's core.
//!
//! - [`lock`]: what a lock is. Pure: keys, ids, fences, liveness, retry delays.
//! - [`backend`]: where locks are stored. One trait, one folder for each store.
//! - [`client`]: what callers do with a backend: wait for a lock, keep it alive, undo a lost acquire.
//! - [`net`]: sockets, and the reactors that serve them.
//! - [`foreign`]: calls from the core into the program.
//! - [`node`]: the binding to Node.js, the only module that knows about it.
//!
//! Dependencies point one way: `node → client → backend → net → lock`.

pub mod backend;
pub mod client;
pub mod error;
pub mod foreign;
pub mod lock;
mod map;
pub mod net;
#[cfg(feature = "node")]
pub mod node;
mod sync;
