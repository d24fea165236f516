//! Locks of one process, in its memory. Every operation is answered at once.

mod backend;
mod config;
mod store;

pub use backend::MemoryBackend;
pub use config::{Clock, MemoryConfig};
