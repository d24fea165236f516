//! Keeps track of the files that this copy of SQLite has open, and refuses those that another copy in the
//! process has open.
//!
//! On POSIX systems file locks belong to the process: a second SQLite in it (of another copy of
//! this package, or of another library) would not see ours, and would drop them all by closing the
//! file. Locks would be granted twice and the file would be damaged, so the second one is refused.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use parking_lot::Mutex;

/// The device and the inode of a file.
type Identity = (u64, u64);

/// How many connections this copy has to each file.
static CONNECTIONS: LazyLock<Mutex<HashMap<Identity, usize>>> = LazyLock::new(Mutex::default);

/// Counts as one connection of this copy. Drop it after the connection.
#[derive(Debug)]
pub(crate) struct Claim {
    path: PathBuf,
    /// None if the system does not report it.
    identity: Option<Identity>,
}

impl Claim {
    /// Opens the file. None if another copy of SQLite in this process has it open.
    pub(crate) fn open<T, E>(
        path: &Path,
        open: impl FnOnce() -> Result<T, E>,
    ) -> Option<Result<(T, Self), E>> {
        // Locked until the new connection is counted, so that it is not mistaken for another copy's.
        let mut connections = CONNECTIONS.lock();
        if let Some(identity) = identity(path)
            && !connections.contains_key(&identity)
            && is_open(identity)
        {
            return None;
        }
        Some(open().map(|opened| {
            let identity = identity(path);
            if let Some(identity) = identity {
                *connections.entry(identity).or_default() += 1;
            }
            let path = path.to_owned();
            (opened, Self { path, identity })
        }))
    }

    /// Returns whether the file is still there. False if it was deleted or replaced.
    pub(super) fn is_current(&self) -> bool {
        self.identity == identity(&self.path)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(identity) = self.identity else {
            return;
        };
        let mut connections = CONNECTIONS.lock();
        if let Some(count) = connections.get_mut(&identity) {
            *count -= 1;
            if *count == 0 {
                connections.remove(&identity);
            }
        }
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// On other systems locks belong to the open file, and an open file cannot be deleted.
#[cfg(not(unix))]
fn identity(_: &Path) -> Option<Identity> {
    None
}

/// Returns whether this process has a descriptor of the file.
fn is_open(wanted: Identity) -> bool {
    std::fs::read_dir("/dev/fd").is_ok_and(|descriptors| {
        descriptors
            .flatten()
            .any(|descriptor| identity(&descriptor.path()) == Some(wanted))
    })
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::backend::sqlite::tests::TestDir;

    fn claim(path: &Path) -> Option<(File, Claim)> {
        Claim::open(path, || {
            File::options().append(true).create(true).open(path)
        })
        .map(Result::unwrap)
    }

    #[test]
    fn ours_may_be_opened_again_and_another_copys_may_not() {
        let dir = TestDir::new();
        let one = claim(&dir.file()).unwrap();
        let two = claim(&dir.file()).unwrap();
        drop(one);
        let three = claim(&dir.file()).unwrap();
        drop((two, three));

        let foreign = File::open(dir.file()).unwrap();
        assert!(claim(&dir.file()).is_none());
        drop(foreign);
        assert!(claim(&dir.file()).is_some());
    }

    #[test]
    fn a_replaced_file_is_not_current() {
        let dir = TestDir::new();
        let (_file, claim) = claim(&dir.file()).unwrap();
        assert!(claim.is_current());
        std::fs::rename(dir.file(), dir.path().join("moved")).unwrap();
        assert!(!claim.is_current());
        std::fs::write(dir.file(), "").unwrap();
        assert!(!claim.is_current());
    }
}
