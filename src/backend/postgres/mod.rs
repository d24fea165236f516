//! Locks in two tables of a PostgreSQL database. The server's clock is the authority.
//!
//! - [`config`] options, [`url`], [`params`] and [`sslmode`] where the server is and how to get in
//! - [`key`] keys as they are stored, [`table`] names of tables, [`sql`] the statements and how they are written out
//! - [`session`] one connection, [`client`] the pool of them and the way of one call
//! - [`error`] what the driver's errors mean, [`setup`] making the tables

mod backend;
mod client;
mod config;
mod error;
mod key;
mod params;
mod session;
mod setup;
mod sql;
mod sslmode;
mod table;
#[cfg(all(test, unix))]
mod tests;
mod tls;
mod url;

pub use backend::PostgresBackend;
pub use config::PostgresConfig;
