//! Locks in Redis or Valkey: one server, Sentinel or Cluster.
//!
//! - [`config`] what a backend is made from, [`backend`] its operations
//! - [`format`] what is stored and how it is asked for
//! - [`client`] runs the calls over a [`transport`]; the [`lane`] is a second connection, for requests
//!   made on the thread of an event loop
//! - [`watch`] tells waiters when a lock may be free, over a third
//! - [`error`] what went wrong, in the codes of the public error

mod backend;
mod client;
mod config;
mod error;
mod format;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod lane;
mod report;
#[cfg(test)]
mod tests;
mod transport;
mod watch;

pub use backend::RedisBackend;
pub use config::{ClientConfig, RedisConfig};
#[cfg(feature = "node")]
pub(crate) use error::server_error;
