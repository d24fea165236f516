//! Backends that the program has written itself. Each operation is a question to the program. Its lockIds
//! need not look like ours, so a question has our lockId, and the JavaScript side maps it to the
//! program's.

mod backend;
mod spied;
mod watch;

pub use backend::JavascriptBackend;
pub use spied::{Replaced, SpiedBackend};

#[cfg(test)]
mod tests;
