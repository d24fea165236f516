//! Locks in a SQLite file, for all processes of one host. There is no server, and the clock is the
//! host's.
//!
//! - [`config`]: the options; [`error`]: what SQLite's errors mean;
//! - [`file`]: where the file is, how it is opened, and which processes have it open;
//! - [`store`]: the operations as SQL; [`shared`]: the holders of shared records; [`values`]: how times
//!   and texts are stored; [`sweep`]: the removal of expired locks;
//! - [`connections`]: which connection runs an operation; [`thread`]: a thread that serves one;
//! - [`watch`]: sees what other processes commit, and wakes waiters; [`occupancy`]: what it compares.

mod backend;
mod config;
mod connections;
mod error;
mod file;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod occupancy;
mod report;
mod shared;
mod store;
mod sweep;
#[cfg(test)]
mod tests;
mod thread;
mod values;
mod watch;

pub use backend::SqliteBackend;
pub use config::{Durability, SqliteConfig};
#[cfg(any(test, windows))]
pub use file::accounts;
