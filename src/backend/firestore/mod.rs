//! Locks in Firestore: one document for each lock, one for each fence counter.
//!
//! Nothing is ever locked on the server: every write is conditional on the versions of the
//! documents that were read.
//!
//! - [`config`] has the options, [`credentials`] and [`metadata`] the credentials
//! - [`connections`] has the connection, [`dialer`] makes it
//! - [`session`] makes the calls of one operation, [`retry`] repeats attempts
//! - [`format`](mod@format) has the stored documents, [`operations`] reads and writes them
//! - [`watch`] notifies waiters when a lock may be free
//! - [`clock`] checks this host's clock, [`error`] maps gRPC codes

mod backend;
mod clock;
mod config;
mod connections;
mod credentials;
mod dialer;
mod error;
mod format;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod metadata;
mod operations;
mod report;
mod retry;
mod session;
#[cfg(test)]
mod tests;
mod watch;

pub use backend::FirestoreBackend;
pub use config::FirestoreConfig;
