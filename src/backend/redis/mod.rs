//! Locks in Redis or Valkey: one server, Sentinel or Cluster.
//!
//! - [`config`] what a backend is made from, [`backend`] its operations
//! - [`format`] what is stored and how it is asked for
//! - [`transport`] runs the scripts: over [`connections`] of our own, or by the [`eval`] of a client
//!   that the program has
//! - [`connection`] is one connection, [`servers`] finds and dials the servers of a deployment
//! - [`watch`] tells waiters when a lock may be free, over a connection of its own
//! - [`report`] and [`prefixes`] what a person should know of the server
//! - [`error`] what went wrong, in the codes of the public error

mod backend;
mod config;
mod connection;
mod connections;
mod error;
mod eval;
mod format;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod prefixes;
mod report;
mod servers;
#[cfg(test)]
mod tests;
mod transport;
mod watch;

pub use backend::RedisBackend;
pub use config::{ClientConfig, RedisConfig};
#[cfg(feature = "node")]
pub(crate) use error::server_error;
