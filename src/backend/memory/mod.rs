//! Locks of one process, in its memory. Every operation is answered at once.

mod backend;
mod config;
mod store;
#[cfg(test)]
mod tests;
mod watch;

pub use backend::MemoryBackend;
pub use config::{Clock, MemoryConfig};
