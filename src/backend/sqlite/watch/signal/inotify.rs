//! Linux tells of every write to the WAL, which is where commits go. It watches the file without
//! opening it: closing a descriptor would drop the file locks of the whole process.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use super::Heard;

/// A commit is several writes. It can be seen soon after the last of them: most probably now.
const COMMIT: Duration = Duration::from_micros(50);

pub(crate) struct Bell(Arc<OwnedFd>);

impl Bell {
    pub(crate) fn ring(&self) {
        // It can only fail because it was rung and not heard yet.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

pub(crate) struct Signal {
    bell: Arc<OwnedFd>,
    /// Nothing where the system does not tell, or has no more of them to give.
    writes: Option<OwnedFd>,
}

impl Signal {
    pub(crate) fn new() -> io::Result<(Bell, Self)> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let signal = Self {
            bell: Arc::clone(&bell),
            writes: None,
        };
        Ok((Bell(bell), signal))
    }

    /// Listens to writes to this file from now on, and to no other.
    pub(crate) fn follow(&mut self, file: &Path) {
        self.writes = wal(file).and_then(|wal| follow(&wal)).ok();
    }

    pub(crate) fn hears_writes(&self) -> bool {
        self.writes.is_some()
    }

    /// Writes are not listened to before `least` has passed: on a busy file each would wake us.
    pub(crate) fn wait(&mut self, least: Duration, most: Duration) -> Heard {
        match &self.writes {
            None => _ = ready(&[&self.bell], most),
            Some(writes) => {
                if !ready(&[&self.bell], least)
                    && ready(&[&self.bell, writes], most.saturating_sub(least))
                {
                    ready(&[&self.bell], COMMIT);
                }
            }
        }
        Heard {
            bell: drain(&self.bell),
            write: self.writes.as_ref().is_some_and(drain),
        }
    }
}

/// Whether one of them was heard in time.
fn ready(sources: &[&OwnedFd], at_most: Duration) -> bool {
    let mut sources: Vec<_> = sources
        .iter()
        .map(|source| PollFd::new(*source, PollFlags::IN))
        .collect();
    let timeout = Timespec::try_from(at_most).unwrap_or_default();
    poll(&mut sources, Some(&timeout)).map_or_else(
        |_| {
            // Interrupted, mostly. Whatever it was, it must not become a busy loop.
            thread::sleep(Duration::from_millis(1));
            false
        },
        |ready| ready > 0,
    )
}

/// Whether there was something to hear, which is then forgotten.
fn drain(source: &OwnedFd) -> bool {
    rustix::io::read(source, &mut [0u8; 4096]).is_ok()
}

/// SQLite puts it beside the file itself, wherever a symbolic link to that may be.
fn wal(file: &Path) -> io::Result<OsString> {
    let mut wal = file.canonicalize()?.into_os_string();
    wal.push("-wal");
    Ok(wal)
}

fn follow(wal: &OsString) -> io::Result<OwnedFd> {
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

    fn heard(bell: bool, write: bool) -> Heard {
        Heard { bell, write }
    }

    #[test]
    fn the_bell_and_writes_are_heard_once() {
        let dir = TestDir::new();
        write(dir.file(), "").unwrap();
        let mut wal = File::create(dir.path().join("locks.db-wal")).unwrap();
        let (bell, mut signal) = Signal::new().unwrap();
        signal.follow(&dir.file());
        assert!(signal.hears_writes());
        io::Write::write_all(&mut wal, b"commit").unwrap();
        assert_eq!(signal.wait(SHORT, LONG), heard(false, true));
        assert_eq!(signal.wait(SHORT, SHORT * 2), heard(false, false));
        bell.ring();
        assert_eq!(signal.wait(LONG, LONG), heard(true, false));
        bell.ring();
        io::Write::write_all(&mut wal, b"commit").unwrap();
        assert_eq!(signal.wait(LONG, LONG), heard(true, true));
        assert_eq!(signal.wait(SHORT, SHORT), heard(false, false));
    }

    #[test]
    fn a_link_is_followed_and_a_missing_file_is_not_heard() {
        let dir = TestDir::new();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.file(), &link).unwrap();
        let (bell, mut signal) = Signal::new().unwrap();
        signal.follow(&link);
        assert!(!signal.hears_writes());
        bell.ring();
        assert_eq!(signal.wait(LONG, LONG), heard(true, false));
        write(dir.file(), "").unwrap();
        write(dir.path().join("locks.db-wal"), "").unwrap();
        signal.follow(&link);
        assert!(signal.hears_writes());
    }
}
