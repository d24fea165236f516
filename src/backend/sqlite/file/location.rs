//! The file to open.
//!
//! Each user of the host has a default file. It is in the home directory that the user database names or,
//! if that cannot be used, in the temporary directory.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::cleanup_guard::CleanupGuard;
use super::moving;
use super::private::{check_parent, file_in, is_own, make_private};
use super::system::{self, FileSystem};
use crate::backend::sqlite::config::Settings;
use crate::backend::sqlite::error::Failure;
use crate::error::{Error, Result};

/// The path below the home directory, or below Windows' folder for the data of local applications.
#[cfg(target_vendor = "apple")]
const STATE: [&str; 3] = ["Library", "Application Support", "syncguard"];
#[cfg(all(unix, not(target_vendor = "apple")))]
const STATE: [&str; 3] = [".local", "state", "syncguard"];
#[cfg(windows)]
const STATE: [&str; 1] = ["syncguard"];

#[derive(Debug, Clone)]
pub(crate) enum Location {
    /// An absolute path, so that it stays the same file if the working directory changes.
    File(PathBuf),
    /// The directory in `SYNCGUARD_STATE_DIR`, as an absolute path.
    Directory(PathBuf),
    Default,
    /// The default file of a user with these directories.
    #[cfg(test)]
    Places(Places),
}

/// Names the file in messages without searching for it, because that may take time.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "lock file {}", path.display()),
            Self::Directory(directory) => write!(f, "lock file in {}", directory.display()),
            _ => f.write_str("default lock file"),
        }
    }
}

/// The directories of a user that may contain the default file.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The home directory that the user database names. Environment variables are ignored, because a login
    /// session, a cron job and a service of one user must use the same file.
    pub(crate) home: Option<PathBuf>,
    /// The system's directory for temporary files.
    pub(crate) temp: PathBuf,
}

pub(super) struct Located {
    pub(super) path: PathBuf,
    pub(super) guards: Vec<CleanupGuard>,
    if_moved: IfMoved,
}

/// What to do if the file has moved to another path.
enum IfMoved {
    /// The file has just moved. Look for it again.
    Retry,
    /// This process cannot use the new path, for this reason.
    NoHome(String),
    Refuse,
}

impl Located {
    pub(super) fn moved_to(&self, to: &Path) -> Failure {
        let path = self.path.display();
        let to = to.display();
        let message = match &self.if_moved {
            IfMoved::Retry => return Failure::busy(&self.path),
            IfMoved::NoHome(reason) => format!(
                "The default lock file of this user is {to}, but this process would use {path}, because {reason}: they would not see each other's locks. Set SYNCGUARD_STATE_DIR to the same directory for all processes, or delete {path} if nothing uses the other file any more"
            ),
            IfMoved::Refuse => format!(
                "The lock file {path} has been replaced by {to}, which is the default file: leave out the path to use it, or use another file"
            ),
        };
        Error::invalid_argument(message).into()
    }
}

pub(super) fn locate(settings: &Settings) -> Result<Located, Failure> {
    let places = match &settings.location {
        Location::File(path) => {
            return Ok(Located {
                path: path.clone(),
                guards: Vec::new(),
                if_moved: IfMoved::Refuse,
            });
        }
        Location::Directory(directory) => return Ok(guarded(directory, IfMoved::Refuse)?),
        Location::Default => Places {
            home: home()?,
            temp: std::env::temp_dir(),
        },
        #[cfg(test)]
        Location::Places(places) => places.clone(),
    };
    let temp = places.temp.join(temp_name());
    match usable(places.home.as_deref()) {
        Ok(home) => in_home(home, &temp, settings),
        Err(reason) => Ok(guarded(&temp, IfMoved::NoHome(reason))?),
    }
}

fn guarded(directory: &Path, if_moved: IfMoved) -> Result<Located> {
    let path = file_in(directory)?;
    Ok(Located {
        guards: vec![CleanupGuard::new(&path)],
        path,
        if_moved,
    })
}

fn in_home(home: &Path, temp: &Path, settings: &Settings) -> Result<Located, Failure> {
    let file = file_in(&state_directory(home)?)?;
    // A directory below the home may be a mount of its own, or a link. No locks are moved to a file
    // that is then refused.
    system::check(&file, settings.allow_network_file_system)?;
    // A file that is not safe to use is ignored, because the previous version does not use it either.
    let previous = file_in(temp).ok();
    let mut guards: Vec<_> = previous
        .iter()
        .map(|path| CleanupGuard::new(path))
        .collect();
    let path = moving::settle(&file, previous.as_deref())?;
    if path != file && Some(&path) != previous.as_ref() {
        guards.push(CleanupGuard::new(&path));
    }
    Ok(Located {
        path,
        guards,
        if_moved: IfMoved::Retry,
    })
}

/// The home directory, or why there is none that can be used. All processes of a user should agree,
/// so only what is a property of the directory counts.
///
/// That it cannot be written to is no reason to use another directory: a service that may not write to it
/// would not exclude a cron job that may.
fn usable(home: Option<&Path>) -> Result<&Path, String> {
    let Some(home) = home.filter(|home| home.is_absolute()) else {
        return Err("the user database names no home directory".to_owned());
    };
    let problem = match fs::metadata(home) {
        Ok(found) if !found.is_dir() => "is not a directory",
        // Mostly system accounts, whose home is `/` or `/usr/sbin`.
        Ok(found) if !is_own(&found) => "belongs to another user",
        Ok(_) if FileSystem::of(home).is_on_this_host() => return Ok(home),
        Ok(_) => "is not on a local file system",
        Err(_) => "does not exist, or cannot be entered",
    };
    Err(format!("the home directory {} {problem}", home.display()))
}

/// Returns the directory for the default file, and creates those above it that do not exist.
fn state_directory(home: &Path) -> Result<PathBuf> {
    let directory = home.join(PathBuf::from_iter(STATE));
    let mut parent = home.to_owned();
    for name in &STATE[..STATE.len() - 1] {
        parent.push(name);
        make_private(&parent)?;
        check_parent(&parent)?;
    }
    Ok(directory)
}

/// The directory inside a temporary directory that users share.
#[cfg(unix)]
pub(crate) fn temp_name() -> String {
    format!("syncguard-{}", rustix::process::geteuid().as_raw())
}

/// The temporary directory is the user's own, unless `TMP` says otherwise or a service has no profile.
#[cfg(windows)]
pub(crate) fn temp_name() -> String {
    match super::accounts::ACCOUNTS.get() {
        Some(accounts) => format!("syncguard-{}", accounts.user),
        None => "syncguard".to_owned(),
    }
}

#[cfg(unix)]
fn home() -> Result<Option<PathBuf>> {
    use nix::errno::Errno;
    match nix::unistd::User::from_uid(nix::unistd::geteuid()) {
        Ok(user) => Ok(user.map(|user| user.dir)),
        // Some systems report an unknown user as an error.
        Err(Errno::ENOENT | Errno::ESRCH | Errno::EBADF | Errno::EPERM) => Ok(None),
        // Other processes may find the home directory, so it does not count as missing.
        Err(error) => Err(Error::unavailable(
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

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::backend::sqlite::file::system::tests::fake;
    use crate::backend::sqlite::tests::TestDir;

    fn reason(home: &Path) -> String {
        usable(Some(home)).unwrap_err()
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
        let directory = state_directory(home.path()).unwrap();
        assert!(directory.ends_with(STATE.join("/")) && directory.parent().unwrap().is_dir());
        assert_eq!(state_directory(home.path()).unwrap(), directory);
    }

    #[test]
    fn a_home_that_is_no_place_for_a_file() {
        let dir = TestDir::new();
        let no_home = usable(None).unwrap_err();
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
        state_directory(home.path()).unwrap();
        assert!(elsewhere.path().join(STATE[1]).is_dir());

        fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = state_directory(home.path()).unwrap_err();
        assert!(error.message.contains("other users"), "{}", error.message);

        fs::remove_file(&first).unwrap();
        fs::write(&first, "").unwrap();
        let error = state_directory(home.path()).unwrap_err();
        assert!(
            error.message.contains("not a directory"),
            "{}",
            error.message
        );
    }
}
