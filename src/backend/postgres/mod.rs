//! Locks in two tables of a PostgreSQL database. The server's clock is the authority.
//!
//! - [`config`] the options, [`target`] where the server is and how to log in
//! - [`backend`] the operations, [`batch`] acquires and releases that share a transaction, [`acquire`] an
//!   acquire that has to wait for others, [`sharing`] keys with several holders, [`sql`] the statements
//! - [`connections`] the pool, and how a request is sent; [`connection`] one connection
//! - [`watch`] wakes waiters when their lock may be free
//! - [`error`] maps the driver's errors, [`report`] describes the server for an operator

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
mod sharing;
mod sql;
mod target;
#[cfg(all(test, unix))]
mod tests;
mod watch;

pub use backend::PostgresBackend;
pub use config::PostgresConfig;
