//! Locks in Redis or Valkey: one server, Sentinel or Cluster.
//!
//! - [`config`] reads the options, and [`backend`] has the operations.
//! - [`format`] has the names and values that are stored, and the scripts.
//! - [`connections`] runs the scripts, or [`client`] does, which belongs to the program. [`retries`]
//!   repeats what a server refused.
//! - [`connection`] is one connection, and [`servers`] finds and dials the servers of a deployment.
//! - [`watch`] wakes waiters when a lock may be free, over a connection of its own.
//! - [`report`] and [`prefixes`] describe the server for people.
//! - [`error`] turns errors of the server into ours.

mod backend;
mod client;
mod config;
mod connection;
mod connections;
mod error;
mod format;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod prefixes;
mod report;
mod retries;
mod servers;
#[cfg(test)]
mod tests;
mod watch;

pub use backend::RedisBackend;
pub use config::{ClientConfig, RedisConfig};
#[cfg(feature = "node")]
pub(crate) use error::server_error;
