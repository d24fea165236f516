//! What wakes the lookout: somebody who begins to wait and, where the system tells, every write to
//! the file.

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(any(test, not(target_os = "linux")))]
mod polling;

#[cfg(target_os = "linux")]
pub(super) use inotify::{Bell, Signal};
#[cfg(not(target_os = "linux"))]
pub(super) use polling::{Bell, Signal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) bell: bool,
    pub(super) write: bool,
}
