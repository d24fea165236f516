//! Locks in the memory of one process. Every operation completes at once.

mod backend;
mod config;
mod store;
#[cfg(test)]
mod tests;
mod watch;

pub use backend::MemoryBackend;
pub use config::{Clock, MemoryConfig};
