//! Locks of a backend that the program has written itself: its operations are questions to the
//! program. Its own lockIds need not look like ours, so the program is told ours and knows which of
//! its locks is meant.

mod backend;
mod spied;
mod watch;

pub use backend::JavascriptBackend;
pub use spied::{Replaced, SpiedBackend};

#[cfg(test)]
mod tests;
