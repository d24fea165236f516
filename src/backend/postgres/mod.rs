//! Locks in two tables of a PostgreSQL database. The server's clock is the authority.
//!
//! - [`config`] options, [`connect`] where the server is, how to get in, and one session
//! - [`backend`] the operations, [`sql`] their statements
//! - [`watch`] how those who wait for a lock are told that it may be free
//! - [`client`] the pool of sessions and the way of one call, [`lane`] a session for the program's
//!   event loop, [`together`] calls that share one, [`error`] what the driver's errors mean

mod backend;
mod client;
mod config;
mod connect;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod lane;
mod report;
mod sql;
#[cfg(all(test, unix))]
mod tests;
mod together;
mod watch;

pub use backend::PostgresBackend;
pub use config::PostgresConfig;
