//! The operations on the documents.

mod acquire;
mod change;
mod force_release;
mod known;
mod list;
mod read;

pub(super) use change::Change;
pub(super) use known::KnownLocks;
