//! What is done with the documents.

mod acquire;
mod change;
mod known;
mod read;

pub(super) use change::Change;
pub(super) use known::KnownLocks;
