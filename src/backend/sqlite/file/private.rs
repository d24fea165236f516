//! Directories that only the user can change, for the default file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[cfg(windows)]
use super::accounts::{ACCOUNTS, private_to};
use crate::error::{Error, Result};

const FILE: &str = "locks.db";

const ADVICE: &str = "Set SYNCGUARD_STATE_DIR to a directory of this user, set SYNCGUARD_URL=sqlite:/path/to/file, or pass a path";

/// Returns the lock file in a directory, which is created if it does not exist. Refuses both if anybody
/// else could have created them or could change them.
pub(super) fn file_in(directory: &Path) -> Result<PathBuf> {
    make_private(directory)?;
    check_owner(directory, fs::Metadata::is_dir)?;
    let file = directory.join(FILE);
    if fs::symlink_metadata(&file).is_ok() {
        check_owner(&file, fs::Metadata::is_file)?;
    }
    Ok(file)
}

/// Creates a directory unless it exists.
pub(super) fn make_private(directory: &Path) -> Result<()> {
    match make_directory(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::invalid_argument(format!(
                "The directory {} for the default lock file cannot be created ({error}). {ADVICE}",
                directory.display()
            ))
            .cause(error))
        }
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn make_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(windows)]
fn make_directory(path: &Path) -> io::Result<()> {
    match ACCOUNTS.get() {
        Some(accounts) => (accounts.make_directory)(path, &private_to(&accounts.user)),
        None => fs::create_dir(path),
    }
}

/// Refuses a file or directory that somebody else could have created or can change.
fn check_owner(path: &Path, is_expected: fn(&fs::Metadata) -> bool) -> Result<()> {
    // Symbolic links are not followed, so one is neither a directory nor a file.
    let problem = fs::symlink_metadata(path).and_then(|found| {
        if !is_expected(&found) {
            return Ok(Some("is a symbolic link, or not of the expected kind"));
        }
        objection(path, &found, WRITABLE_BY_OTHERS)
    });
    refuse(path, problem)
}

/// Refuses a directory above the private one that everybody can change. It may be a symbolic link of the
/// user's, and a group may write to it, because many systems give each user a group.
pub(super) fn check_parent(directory: &Path) -> Result<()> {
    let problem = fs::metadata(directory).and_then(|found| {
        if !found.is_dir() {
            return Ok(Some("is not a directory"));
        }
        if cfg!(windows) {
            // Windows has created it for this user.
            return Ok(None);
        }
        objection(directory, &found, WRITABLE_BY_EVERYBODY)
    });
    refuse(directory, problem)
}

fn refuse(path: &Path, problem: io::Result<Option<&str>>) -> Result<()> {
    let why = match problem {
        Ok(None) => return Ok(()),
        Ok(Some(why)) => why.to_owned(),
        Err(error) => format!("cannot be examined ({error})"),
    };
    Err(Error::invalid_argument(format!(
        "The default lock file is not safe to use: {} {why}. {ADVICE}",
        path.display()
    )))
}

const WRITABLE_BY_OTHERS: u32 = 0o022;
const WRITABLE_BY_EVERYBODY: u32 = 0o002;

/// Returns why the user must not rely on the file. `writable`: the permissions that it must not give.
#[cfg(unix)]
fn objection(_: &Path, found: &fs::Metadata, writable: u32) -> io::Result<Option<&'static str>> {
    use std::os::unix::fs::MetadataExt;
    Ok(if !is_own(found) {
        Some("belongs to another user")
    } else if found.mode() & writable != 0 {
        Some("can be changed by other users")
    } else {
        None
    })
}

#[cfg(windows)]
fn objection(path: &Path, _: &fs::Metadata, _: u32) -> io::Result<Option<&'static str>> {
    match ACCOUNTS.get() {
        Some(accounts) => Ok((accounts.access)(path)?.objection(&accounts.user)),
        None => Ok(None),
    }
}

#[cfg(unix)]
pub(super) fn is_own(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    found.uid() == rustix::process::geteuid().as_raw()
}

/// Windows has created the folder for the data of local applications for this user.
#[cfg(windows)]
pub(super) fn is_own(_: &fs::Metadata) -> bool {
    true
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::backend::sqlite::tests::TestDir;
    use crate::error::ErrorCode;

    fn refused(directory: &Path, why: &str) {
        let error = file_in(directory).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArgument);
        assert!(error.message.contains(why), "{}", error.message);
    }

    #[test]
    fn makes_a_private_directory_once() {
        let parent = TestDir::new();
        let directory = parent.path().join("private");
        let file = file_in(&directory).unwrap();
        assert_eq!(file.parent(), Some(directory.as_path()));
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
        assert_eq!(file_in(&directory).unwrap(), file);
        fs::write(&file, "").unwrap();
        assert_eq!(file_in(&directory).unwrap(), file);
    }

    #[test]
    fn refuses_what_others_control() {
        let parent = TestDir::new();
        let directory = parent.path().join("private");
        let elsewhere = parent.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();

        symlink(&elsewhere, &directory).unwrap();
        refused(&directory, "symbolic link");
        fs::remove_file(&directory).unwrap();

        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o770)).unwrap();
        refused(&directory, "changed by other users");
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();

        symlink(elsewhere.join("planted"), directory.join(FILE)).unwrap();
        refused(&directory, "symbolic link");
        fs::remove_file(directory.join(FILE)).unwrap();

        fs::create_dir(directory.join(FILE)).unwrap();
        refused(&directory, "not of the expected kind");
    }

    #[test]
    fn refuses_a_file_in_place_of_the_directory_and_a_missing_parent() {
        let parent = TestDir::new();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        refused(&file, "not of the expected kind");
        refused(&parent.path().join("missing/private"), "cannot be created");
    }
}
