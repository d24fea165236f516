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
        let Some(writes) = &self.writes else {
            return listen(&self.bell, None, most);
        };
        if !least.is_zero() && listen(&self.bell, None, least) == Heard::Bell {
            return Heard::Bell;
        }
        listen(&self.bell, Some(writes), most.saturating_sub(least))
    }
}

fn listen(bell: &OwnedFd, writes: Option<&OwnedFd>, at_most: Duration) -> Heard {
    let mut ears = vec![PollFd::new(bell, PollFlags::IN)];
    ears.extend(writes.map(|writes| PollFd::new(writes, PollFlags::IN)));
    let timeout = Timespec::try_from(at_most).unwrap_or_default();
    if poll(&mut ears, Some(&timeout)).is_err() {
        // Interrupted, mostly. Whatever it was, it must not become a busy loop.
        thread::sleep(Duration::from_millis(1));
        return Heard::Nothing;
    }
    let heard = |ear: usize| ears.get(ear).is_some_and(|ear| !ear.revents().is_empty());
    match (heard(0), heard(1), writes) {
        (true, ..) => drain(bell, Heard::Bell),
        (_, true, Some(writes)) => drain(writes, Heard::Write),
        _ => Heard::Nothing,
    }
}

/// Forgets what was heard. What does not fit is heard again.
fn drain(source: &OwnedFd, heard: Heard) -> Heard {
    let _ = rustix::io::read(source, &mut [0u8; 4096]);
    heard
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

    #[test]
    fn the_bell_and_writes_are_heard_once() {
        let dir = TestDir::new();
        write(dir.file(), "").unwrap();
        let mut wal = File::create(dir.path().join("locks.db-wal")).unwrap();
        let (bell, mut signal) = Signal::new().unwrap();
        signal.follow(&dir.file());
        assert!(signal.hears_writes());
        io::Write::write_all(&mut wal, b"commit").unwrap();
        bell.ring();
        assert_eq!(signal.wait(LONG, LONG), Heard::Bell);
        assert_eq!(signal.wait(SHORT, LONG), Heard::Write);
        assert_eq!(signal.wait(SHORT, SHORT * 2), Heard::Nothing);
        io::Write::write_all(&mut wal, b"commit").unwrap();
        assert_eq!(signal.wait(SHORT, SHORT), Heard::Write);
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
        assert_eq!(signal.wait(LONG, LONG), Heard::Bell);
        write(dir.file(), "").unwrap();
        write(dir.path().join("locks.db-wal"), "").unwrap();
        signal.follow(&link);
        assert!(signal.hears_writes());
    }
}
