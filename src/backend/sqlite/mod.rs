//! Locks in a SQLite file, for all processes of one host. There is no server, and the clock is the
//! host's.
//!
//! - [`config`]: the options; [`error`]: what SQLite's errors mean;
//! - [`file`]: where the file is, how it is opened, and which processes have it open;
//! - [`store`]: the operations as SQL; [`sweep`]: the removal of expired locks;
//! - [`connections`]: which connection runs an operation; [`thread`]: a thread that serves one;
//! - [`watch`]: sees what other processes commit, and wakes waiters.

mod backend;
mod config;
mod connections;
mod error;
mod file;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod report;
mod store;
mod sweep;
#[cfg(test)]
mod tests;
mod thread;
mod watch;

pub use backend::SqliteBackend;
pub use config::{Durability, SqliteConfig};
#[cfg(any(test, windows))]
pub use file::accounts;
