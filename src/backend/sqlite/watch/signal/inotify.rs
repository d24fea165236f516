//! Linux reports every write to the WAL, which is where commits go. The file is watched without opening
//! it: closing a descriptor would drop the file locks of the whole process.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use super::Woken;

/// How long to wait after a write for the rest of its commit, which consists of several writes.
const COMMIT_TIME: Duration = Duration::from_micros(50);

pub(crate) struct WakeHandle(Arc<OwnedFd>);

impl WakeHandle {
    pub(crate) fn wake(&self) {
        // This fails only if the thread was woken before and has not noticed it yet.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

pub(crate) struct Signal {
    handle: Arc<OwnedFd>,
    /// None if the system cannot report writes, or has no instance left.
    writes: Option<OwnedFd>,
}

impl Signal {
    pub(crate) fn new() -> io::Result<(WakeHandle, Self)> {
        let handle = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let signal = Self {
            handle: Arc::clone(&handle),
            writes: None,
        };
        Ok((WakeHandle(handle), signal))
    }

    /// Reports writes to this file from now on, and to no other.
    pub(crate) fn watch_file(&mut self, file: &Path) {
        self.writes = wal(file).and_then(|wal| writes_to(&wal)).ok();
    }

    pub(crate) fn reports_writes(&self) -> bool {
        self.writes.is_some()
    }

    /// Waits for a wake-up. A write does not count before `least` has passed, because on a busy file every
    /// write would end the wait.
    pub(crate) fn wait(&mut self, least: Duration, most: Duration) -> Woken {
        match &self.writes {
            None => _ = ready(&[&self.handle], most),
            Some(writes) => {
                if !ready(&[&self.handle], least)
                    && ready(&[&self.handle, writes], most.saturating_sub(least))
                {
                    ready(&[&self.handle], COMMIT_TIME);
                }
            }
        }
        Woken {
            by_handle: drain(&self.handle),
            by_write: self.writes.as_ref().is_some_and(drain),
        }
    }
}

/// Returns whether one of the sources became readable in time.
fn ready(sources: &[&OwnedFd], at_most: Duration) -> bool {
    let mut sources: Vec<_> = sources
        .iter()
        .map(|source| PollFd::new(*source, PollFlags::IN))
        .collect();
    let timeout = Timespec::try_from(at_most).unwrap_or_default();
    poll(&mut sources, Some(&timeout)).map_or_else(
        |_| {
            // Usually an interrupted call. The pause keeps a lasting error from becoming a busy loop.
            thread::sleep(Duration::from_millis(1));
            false
        },
        |ready| ready > 0,
    )
}

/// Returns whether the source was readable, and empties it.
fn drain(source: &OwnedFd) -> bool {
    rustix::io::read(source, &mut [0u8; 4096]).is_ok()
}

/// Returns the path of the WAL. SQLite puts it next to the file itself, and not next to a symbolic link
/// to it.
fn wal(file: &Path) -> io::Result<OsString> {
    let mut wal = file.canonicalize()?.into_os_string();
    wal.push("-wal");
    Ok(wal)
}

fn writes_to(wal: &OsString) -> io::Result<OwnedFd> {
    let writes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&writes, wal.as_os_str(), WatchFlags::MODIFY)?;
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use std::fs::{File, write};

    use super::*;
    use crate::backend::sqlite::tests::TestDir;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(1);

    fn woken(by_handle: bool, by_write: bool) -> Woken {
        Woken {
            by_handle,
            by_write,
        }
    }

    #[test]
    fn wake_ups_and_writes_are_reported_once() {
        let dir = TestDir::new();
        write(dir.file(), "").unwrap();
        let mut wal = File::create(dir.path().join("locks.db-wal")).unwrap();
        let (handle, mut signal) = Signal::new().unwrap();
        signal.watch_file(&dir.file());
        assert!(signal.reports_writes());
        io::Write::write_all(&mut wal, b"commit").unwrap();
        assert_eq!(signal.wait(SHORT, LONG), woken(false, true));
        assert_eq!(signal.wait(SHORT, SHORT * 2), woken(false, false));
        handle.wake();
        assert_eq!(signal.wait(LONG, LONG), woken(true, false));
        handle.wake();
        io::Write::write_all(&mut wal, b"commit").unwrap();
        assert_eq!(signal.wait(LONG, LONG), woken(true, true));
        assert_eq!(signal.wait(SHORT, SHORT), woken(false, false));
    }

    #[test]
    fn a_link_is_followed_and_a_missing_file_reports_no_writes() {
        let dir = TestDir::new();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.file(), &link).unwrap();
        let (handle, mut signal) = Signal::new().unwrap();
        signal.watch_file(&link);
        assert!(!signal.reports_writes());
        handle.wake();
        assert_eq!(signal.wait(LONG, LONG), woken(true, false));
        write(dir.file(), "").unwrap();
        write(dir.path().join("locks.db-wal"), "").unwrap();
        signal.watch_file(&link);
        assert!(signal.reports_writes());
    }
}
