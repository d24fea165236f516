//! Locks in two tables of a PostgreSQL database. The server's clock is the authority.
//!
//! - [`config`] options, [`target`] where the server is and how to log in
//! - [`backend`] the operations, [`acquire`] the acquire that has a transaction of its own, [`batch`]
//!   acquires and releases that share one, [`sql`] the statements
//! - [`connections`] the pool, and the way of one request through it; [`connection`] one connection
//! - [`watch`] tells waiters that a lock may be free
//! - [`error`] what the driver's errors mean, [`report`] what an operator should know about the server

mod acquire;
mod backend;
mod batch;
mod config;
mod connection;
mod connections;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod report;
mod sql;
mod target;
#[cfg(all(test, unix))]
mod tests;
mod watch;

pub use backend::PostgresBackend;
pub use config::PostgresConfig;
