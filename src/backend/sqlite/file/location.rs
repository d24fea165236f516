//! The file to open.
//!
//! Each user of the host has a default file. It is in the home directory that the user database names or,
//! if that cannot be used, in the temporary directory.

use std::path::{Path, PathBuf};

use super::Failure;
use super::cleanup_guard::CleanupGuard;
use super::moving;
use super::places::Places;
use super::private::file_in;
use super::system;
use crate::backend::sqlite::config::Settings;
use crate::error::Result;

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

pub(super) struct Located {
    pub(super) path: PathBuf,
    pub(super) guards: Vec<CleanupGuard>,
    /// What to do if the file has moved to another path.
    pub(super) if_moved: IfMoved,
}

pub(super) enum IfMoved {
    /// The file has just moved. Look for it again.
    Retry,
    /// This process cannot use the new path, for this reason.
    NoHome(String),
    Refuse,
}

pub(super) fn locate(settings: &Settings) -> Result<Located, Failure> {
    match &settings.location {
        Location::File(path) => Ok(Located {
            path: path.clone(),
            guards: Vec::new(),
            if_moved: IfMoved::Refuse,
        }),
        Location::Directory(directory) => {
            let path = file_in(directory).map_err(Failure::Failed)?;
            Ok(Located {
                guards: vec![CleanupGuard::new(&path)],
                path,
                if_moved: IfMoved::Refuse,
            })
        }
        Location::Default => {
            let places = Places::of_this_user().map_err(Failure::Failed)?;
            default_file(&places, settings)
        }
        #[cfg(test)]
        Location::Places(places) => default_file(places, settings),
    }
}

fn default_file(places: &Places, settings: &Settings) -> Result<Located, Failure> {
    match places.state_directory().map_err(Failure::Failed)? {
        Ok(directory) => in_home(&directory, places, settings),
        Err(reason) => in_temp(places, reason).map_err(Failure::Failed),
    }
}

fn in_home(directory: &Path, places: &Places, settings: &Settings) -> Result<Located, Failure> {
    let file = file_in(directory).map_err(Failure::Failed)?;
    // A directory below the home may be a mount of its own, or a link. No locks are moved to a file
    // that is then refused.
    system::check(&file, settings.allow_network_file_system).map_err(Failure::Failed)?;
    // A file that is not safe to use is ignored, because the previous version does not use it either.
    let previous = file_in(&places.temp.join(temp_name())).ok();
    let mut guards: Vec<_> = previous
        .iter()
        .map(|file| CleanupGuard::new(file))
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

fn in_temp(places: &Places, reason: String) -> Result<Located> {
    let path = file_in(&places.temp.join(temp_name()))?;
    Ok(Located {
        guards: vec![CleanupGuard::new(&path)],
        path,
        if_moved: IfMoved::NoHome(reason),
    })
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
