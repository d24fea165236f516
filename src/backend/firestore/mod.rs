//! Locks in Firestore: one document for each lock, one for each fence counter.
//!
//! Nothing is ever locked on the server: every write is conditional on the versions of the
//! documents that were read.
//!
//! - [`config`] has the options, [`credentials`] and [`metadata`] make access tokens
//! - [`backend`] has the operations, [`acquire`] and [`change`] those that write,
//!   [`known`] remembers what was written
//! - [`retry`] repeats the attempts of an operation, [`attempt`] makes the calls of one
//! - [`connections`] shares the connection, [`dialer`] makes it
//! - [`format`](mod@format) has the stored documents and the requests for them
//! - [`watch`] notifies waiters when a lock may be free
//! - [`clock`] checks this host's clock, [`error`] maps gRPC codes

mod acquire;
mod attempt;
mod backend;
mod change;
mod clock;
mod config;
mod connections;
mod credentials;
mod dialer;
mod error;
mod format;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod known;
mod metadata;
mod report;
mod retry;
#[cfg(test)]
mod tests;
mod watch;

pub use backend::FirestoreBackend;
pub use config::FirestoreConfig;
