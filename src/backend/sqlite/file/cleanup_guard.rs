//! Protects a file in a temporary directory from programs that clean such directories.
//!
//! `systemd-tmpfiles` skips a directory while a process holds a lock (`flock`) on it. Other programs only
//! look at the age of a file.

use std::path::Path;

/// Create it before the file is opened, and drop it after the file is closed. It does nothing on Windows,
/// where an open file cannot be deleted.
#[derive(Debug)]
pub(crate) struct CleanupGuard {
    #[cfg(unix)]
    file: std::path::PathBuf,
    #[cfg(unix)]
    lock: Option<std::os::fd::OwnedFd>,
}

impl CleanupGuard {
    /// The directory must contain nothing else.
    #[cfg(unix)]
    pub(super) fn new(file: &Path) -> Self {
        let mut guard = Self {
            file: file.to_owned(),
            lock: None,
        };
        guard.refresh();
        guard
    }

    #[cfg(windows)]
    pub(super) fn new(_: &Path) -> Self {
        Self {}
    }

    /// Makes the files look new. A failure only means that they may be cleaned up.
    #[cfg(unix)]
    pub(super) fn refresh(&mut self) {
        let Some(directory) = self.file.parent() else {
            return;
        };
        if self.lock.is_none() {
            // This fails while a cleaner is at work. The next call tries again.
            self.lock = lock_shared(directory).ok();
        }
        touch(directory);
        for suffix in ["", "-wal", "-shm"] {
            let mut name = self.file.clone().into_os_string();
            name.push(suffix);
            touch(Path::new(&name));
        }
    }

    #[cfg(windows)]
    pub(super) fn refresh(&mut self) {}
}

#[cfg(unix)]
fn lock_shared(directory: &Path) -> rustix::io::Result<std::os::fd::OwnedFd> {
    use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(directory, flags, Mode::empty())?;
    flock(&directory, FlockOperation::NonBlockingLockShared)?;
    Ok(directory)
}

/// Uses the path of the file, because opening and closing it would drop the file locks of the whole
/// process.
#[cfg(unix)]
fn touch(path: &Path) {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    let _ = utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW);
}
