//! Locks in a SQLite file, for all processes of one host. No server; the clock is the host's.
//!
//! - [`config`] options, [`error`] what SQLite's errors mean
//! - [`file`] where the file is, opening it, and who else has it open
//! - [`store`] the operations as SQL, [`sweep`] what tidies up behind them
//! - [`thread`] a thread with a connection of its own, [`client`] which one runs what
//! - [`watch`] sees what others commit, for those who wait

mod backend;
mod client;
mod config;
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
