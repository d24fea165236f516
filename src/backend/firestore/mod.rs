//! Locks in Firestore: one document for each locked key, one for each fence counter.
//!
//! Nothing is ever locked on the server: every write is conditional on the versions of the
//! documents that were read.
//!
//! - [`config`] has the options, [`credentials`] and [`metadata`] make access tokens
//! - [`backend`] has the operations, [`change`] releases and extends locks, [`known`] remembers what was
//!   written
//! - [`batch`] makes the changes of one key together, [`holding`] has the rules for them, [`transaction`]
//!   writes them
//! - [`retry`] repeats the attempts of an operation, [`attempt`] makes the calls of one
//! - [`connections`] shares the connection, [`dialer`] makes it
//! - [`format`](mod@format) has the stored documents and the requests for them
//! - [`watch`] notifies waiters when a lock may be free
//! - [`clock`] checks this host's clock, [`error`] maps gRPC codes

mod attempt;
mod backend;
mod batch;
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
mod holding;
mod known;
mod metadata;
mod report;
mod retry;
#[cfg(test)]
mod tests;
mod transaction;
mod watch;

pub use backend::FirestoreBackend;
pub use config::FirestoreConfig;
