//! The default file: one for each user of the host, in a directory that only they can enter.
//!
//! It lies in the system's temp directory and not in `XDG_RUNTIME_DIR`: that variable is set in a
//! login session but not in a cron job or a service of the same user, and two processes that
//! looked in different places would both get the lock.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[cfg(windows)]
use super::accounts::{ACCOUNTS, private_to};
use crate::error::{Error, Result};

const FILE: &str = "locks.db";

/// The path of the default file, as it may be named.
pub(crate) fn default_path() -> PathBuf {
    std::env::temp_dir().join(directory_name()).join(FILE)
}

/// The path of the default file. Its directory is made if need be, and checked.
pub(super) fn default_file() -> Result<PathBuf> {
    file_in(&std::env::temp_dir())
}

fn file_in(temp: &Path) -> Result<PathBuf> {
    let directory = temp.join(directory_name());
    make_private(&directory).map_err(|error| {
        Error::invalid_argument(format!(
            "The directory {} for the default lock file cannot be used. {ADVICE}",
            directory.display()
        ))
        .cause(error)
    })?;
    check_owner(&directory, fs::Metadata::is_dir)?;
    let file = directory.join(FILE);
    if fs::symlink_metadata(&file).is_ok() {
        check_owner(&file, fs::Metadata::is_file)?;
    }
    Ok(file)
}

const ADVICE: &str = "Set SYNCGUARD_URL=sqlite:/path/to/file, or pass a path";

#[cfg(unix)]
fn directory_name() -> String {
    format!("syncguard-{}", rustix::process::geteuid().as_raw())
}

/// The temp directory is the user's own, unless `TMP` says otherwise or a service has no profile.
#[cfg(windows)]
fn directory_name() -> String {
    match ACCOUNTS.get() {
        Some(accounts) => format!("syncguard-{}", accounts.user),
        None => "syncguard".to_owned(),
    }
}

fn make_private(directory: &Path) -> io::Result<()> {
    match make_directory(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
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

/// Refuses what somebody else could have put there, or can change.
fn check_owner(path: &Path, right_kind: fn(&fs::Metadata) -> bool) -> Result<()> {
    let refuse = |why: &str| {
        Err(Error::invalid_argument(format!(
            "The default lock file is not safe to use: {} {why}. {ADVICE}",
            path.display()
        )))
    };
    // Not followed: a symlink is no directory and no file.
    let examined = fs::symlink_metadata(path).and_then(|found| {
        if !right_kind(&found) {
            return Ok(Some("is a symbolic link, or not of the expected kind"));
        }
        objection(path, &found)
    });
    match examined {
        Ok(None) => Ok(()),
        Ok(Some(why)) => refuse(why),
        Err(error) => refuse(&format!("cannot be examined ({error})")),
    }
}

#[cfg(unix)]
fn objection(_: &Path, found: &fs::Metadata) -> io::Result<Option<&'static str>> {
    use std::os::unix::fs::MetadataExt;
    Ok(if found.uid() != rustix::process::geteuid().as_raw() {
        Some("belongs to another user")
    } else if found.mode() & 0o022 != 0 {
        Some("can be changed by other users")
    } else {
        None
    })
}

#[cfg(windows)]
fn objection(path: &Path, _: &fs::Metadata) -> io::Result<Option<&'static str>> {
    match ACCOUNTS.get() {
        Some(accounts) => Ok((accounts.access)(path)?.objection(&accounts.user)),
        None => Ok(None),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::backend::sqlite::tests::TestDir;
    use crate::error::ErrorCode;

    fn refused(temp: &Path, why: &str) {
        let error = file_in(temp).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArgument);
        assert!(error.message.contains(why), "{}", error.message);
    }

    #[test]
    fn makes_a_private_directory_once() {
        let temp = TestDir::new();
        let file = file_in(temp.path()).unwrap();
        let directory = file.parent().unwrap();
        assert_eq!(fs::metadata(directory).unwrap().mode() & 0o777, 0o700);
        assert_eq!(file_in(temp.path()).unwrap(), file);
        fs::write(&file, "").unwrap();
        assert_eq!(file_in(temp.path()).unwrap(), file);
    }

    #[test]
    fn refuses_what_others_control() {
        let temp = TestDir::new();
        let directory = temp.path().join(directory_name());
        let elsewhere = temp.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();

        symlink(&elsewhere, &directory).unwrap();
        refused(temp.path(), "symbolic link");
        fs::remove_file(&directory).unwrap();

        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o770)).unwrap();
        refused(temp.path(), "changed by other users");
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();

        symlink(elsewhere.join("planted"), directory.join(FILE)).unwrap();
        refused(temp.path(), "symbolic link");
        fs::remove_file(directory.join(FILE)).unwrap();

        fs::create_dir(directory.join(FILE)).unwrap();
        refused(temp.path(), "not of the expected kind");
    }

    #[test]
    fn refuses_a_file_in_place_of_the_directory_and_a_missing_temp_directory() {
        let temp = TestDir::new();
        fs::write(temp.path().join(directory_name()), "").unwrap();
        refused(temp.path(), "not of the expected kind");
        refused(&temp.path().join("missing"), "cannot be used");
    }
}
