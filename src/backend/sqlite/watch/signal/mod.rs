//! What wakes the observer: a waiter that begins to wait and, where the system reports it, every write
//! to the file.

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(any(test, not(target_os = "linux")))]
mod polling;

#[cfg(target_os = "linux")]
pub(super) use inotify::{Signal, WakeHandle};
#[cfg(not(target_os = "linux"))]
pub(super) use polling::{Signal, WakeHandle};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Woken {
    pub(super) by_handle: bool,
    pub(super) by_write: bool,
}
