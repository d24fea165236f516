//! The primitives with which threads share state. `models/` replaces them with ones that run the threads in an
//! order that a test chooses.

pub(crate) use parking_lot::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize};
pub(crate) use std::thread_local;
pub(crate) use tokio::runtime::Handle;
pub(crate) use tokio::task::spawn;
pub(crate) use tokio::time::sleep;
#[cfg(feature = "node")]
pub(crate) use tokio_util::sync::CancellationToken;
