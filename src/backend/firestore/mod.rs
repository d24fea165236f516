//! Locks in Firestore: one document for each lock, one for each fence counter.
//!
//! Nothing is ever locked on the server: every write is conditional on the versions of the
//! documents that it was decided upon.
//!
//! - [`config`] options, [`auth`] who this client is
//! - [`client`] the connection, [`session`] the calls of one operation, [`retry`] how they are repeated
//! - [`format`](mod@format) the documents as they are stored, [`operations`] what is done with them
//! - [`watch`] being told when a lock may be had
//! - [`clock`] a look at this host's clock, [`error`] what gRPC codes mean

mod auth;
mod backend;
mod client;
mod clock;
mod config;
mod error;
mod format;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod operations;
mod report;
mod retry;
mod session;
#[cfg(test)]
mod tests;
mod watch;

pub use backend::FirestoreBackend;
pub use config::FirestoreConfig;
