//! Backends that the program has written itself. Each operation is a question to the program. Its lockIds
//! need not look like ours, so a question has our lockId, and the JavaScript side maps it to the
//! program's.

mod backend;
mod watch;

pub use backend::JavascriptBackend;

#[cfg(test)]
mod tests;
