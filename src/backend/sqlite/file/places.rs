//! The directories that may contain the default file.

use std::fs;
use std::path::{Path, PathBuf};

use super::private::{make_private, unsafe_to_use};
use super::system::FileSystem;
use crate::error::Result;

/// The path below the home directory, or below Windows' folder for the data of local applications.
#[cfg(target_vendor = "apple")]
const STATE: [&str; 3] = ["Library", "Application Support", "syncguard"];
#[cfg(all(unix, not(target_vendor = "apple")))]
const STATE: [&str; 3] = [".local", "state", "syncguard"];
#[cfg(windows)]
const STATE: [&str; 1] = ["syncguard"];

#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The home directory that the user database names. Environment variables are ignored, because a login
    /// session, a cron job and a service of one user must use the same file.
    pub(crate) home: Option<PathBuf>,
    /// The directory that the environment names.
    pub(crate) temp: PathBuf,
}

impl Places {
    pub(super) fn of_this_user() -> Result<Self> {
        Ok(Self {
            home: home()?,
            temp: std::env::temp_dir(),
        })
    }

    /// Returns the directory for the default file, and creates it if it does not exist. The inner error
    /// says why the home directory cannot be used.
    pub(super) fn state_directory(&self) -> Result<Result<PathBuf, String>> {
        let home = match usable(self.home.as_deref()) {
            Ok(home) => home,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut directory = home.to_owned();
        let Some((last, parents)) = STATE.split_last() else {
            return Ok(Ok(directory));
        };
        // A home directory that cannot be written to is an error, and no reason to use another directory:
        // a service that may not write to it would not exclude a cron job that may.
        for name in parents {
            directory.push(name);
            make_private(&directory)?;
            check_parent(&directory)?;
        }
        directory.push(last);
        Ok(Ok(directory))
    }
}

/// The home directory, or why there is none that can be used. All processes of a user should agree,
/// so only what is a property of the directory counts.
fn usable(home: Option<&Path>) -> Result<&Path, String> {
    let Some(home) = home.filter(|home| home.is_absolute()) else {
        return Err("the user database names no home directory".to_owned());
    };
    let problem = match fs::metadata(home) {
        Ok(found) if !found.is_dir() => "is not a directory",
        // Mostly system accounts, whose home is `/` or `/usr/sbin`.
        Ok(found) if !is_own(&found) => "belongs to another user",
        Ok(_) => match FileSystem::of(home) {
            system if system.is_on_this_host() => return Ok(home),
            _ => "is not on a local file system",
        },
        Err(_) => "does not exist, or cannot be entered",
    };
    Err(format!("the home directory {} {problem}", home.display()))
}

/// Refuses a directory that everybody can change. Unlike the directory of the file it may be a symbolic
/// link of the user's, and a group may write to it, because many systems give each user a group.
#[cfg(unix)]
fn check_parent(directory: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(directory)
        .map_err(|error| unsafe_to_use(directory, &format!("cannot be examined ({error})")))?;
    if !found.is_dir() {
        Err(unsafe_to_use(directory, "is not a directory"))
    } else if !is_own(&found) {
        Err(unsafe_to_use(directory, "belongs to another user"))
    } else if found.mode() & 0o002 != 0 {
        Err(unsafe_to_use(directory, "can be changed by other users"))
    } else {
        Ok(())
    }
}

#[cfg(windows)]
fn check_parent(directory: &Path) -> Result<()> {
    match fs::metadata(directory) {
        Ok(found) if found.is_dir() => Ok(()),
        _ => Err(unsafe_to_use(directory, "is not a directory")),
    }
}

#[cfg(unix)]
fn is_own(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    found.uid() == rustix::process::geteuid().as_raw()
}

/// Accepts the folder, which Windows has created for this user.
#[cfg(windows)]
fn is_own(_: &fs::Metadata) -> bool {
    true
}

#[cfg(unix)]
fn home() -> Result<Option<PathBuf>> {
    use nix::errno::Errno;
    match nix::unistd::User::from_uid(nix::unistd::geteuid()) {
        Ok(user) => Ok(user.map(|user| user.dir)),
        // Some systems report an unknown user as an error.
        Err(Errno::ENOENT | Errno::ESRCH | Errno::EBADF | Errno::EPERM) => Ok(None),
        // Other processes may find the home directory, so it does not count as missing.
        Err(error) => Err(crate::error::Error::unavailable(
            "The user database could not be asked for the home directory, where the default lock file is. Try again, set SYNCGUARD_STATE_DIR, or pass a path",
        )
        .cause(error.desc())),
    }
}

#[cfg(windows)]
fn home() -> Result<Option<PathBuf>> {
    use super::accounts::ACCOUNTS;
    Ok(ACCOUNTS
        .get()
        .and_then(|accounts| accounts.local_data.clone()))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::backend::sqlite::file::system::tests::fake;
    use crate::backend::sqlite::tests::TestDir;

    fn places(home: &Path) -> Places {
        Places {
            home: Some(home.to_owned()),
            temp: PathBuf::new(),
        }
    }

    fn reason(home: &Path) -> String {
        places(home).state_directory().unwrap().unwrap_err()
    }

    #[test]
    fn the_user_database_decides() {
        let named = std::process::Command::new("sh")
            .args(["-c", "eval echo ~$(id -un)"])
            .env("HOME", "/elsewhere")
            .output()
            .unwrap();
        let named = String::from_utf8(named.stdout).unwrap();
        assert_eq!(home().unwrap(), Some(PathBuf::from(named.trim())));
    }

    #[test]
    fn directories_below_the_home_are_created() {
        let home = TestDir::new();
        let directory = places(home.path()).state_directory().unwrap().unwrap();
        assert!(directory.ends_with(STATE.join("/")) && directory.parent().unwrap().is_dir());
        assert_eq!(
            places(home.path()).state_directory().unwrap().unwrap(),
            directory
        );
    }

    #[test]
    fn a_home_that_is_no_place_for_a_file() {
        let dir = TestDir::new();
        let none = Places {
            home: None,
            temp: PathBuf::new(),
        };
        let no_home = none.state_directory().unwrap().unwrap_err();
        assert!(no_home.contains("names no home directory"));
        assert!(reason(Path::new("")).contains("names no home directory"));
        assert!(reason(&dir.path().join("nonexistent")).contains("does not exist"));
        assert!(reason(Path::new("/dev/null")).contains("is not a directory"));
        let network = dir.path().join("network");
        fs::create_dir(&network).unwrap();
        fake(&network, FileSystem::Network("NFS".to_owned()));
        assert!(reason(&network).contains("not on a local file system"));
        let fuse = dir.path().join("fuse");
        fs::create_dir(&fuse).unwrap();
        fake(&fuse, FileSystem::Fuse("sshfs".to_owned()));
        assert!(reason(&fuse).contains("not on a local file system"));
        if rustix::process::geteuid().is_root() {
            let other = dir.path().join("other");
            fs::create_dir(&other).unwrap();
            std::os::unix::fs::chown(&other, Some(65_534), None).unwrap();
            assert!(reason(&other).contains("belongs to another user"));
        } else {
            assert!(reason(Path::new("/")).contains("belongs to another user"));
        }
    }

    #[test]
    fn a_directory_in_between_may_be_the_users_link_but_not_everybodys() {
        let home = TestDir::new();
        let elsewhere = TestDir::new();
        let first = home.path().join(STATE[0]);
        symlink(elsewhere.path(), &first).unwrap();
        places(home.path()).state_directory().unwrap().unwrap();
        assert!(elsewhere.path().join(STATE[1]).is_dir());

        fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = places(home.path()).state_directory().unwrap_err();
        assert!(error.message.contains("other users"), "{}", error.message);

        fs::remove_file(&first).unwrap();
        fs::write(&first, "").unwrap();
        let error = places(home.path()).state_directory().unwrap_err();
        assert!(
            error.message.contains("not a directory"),
            "{}",
            error.message
        );
    }
}
