//! The options of the SQLite backend.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::file::Location;
use crate::error::{Error, Result};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SqliteConfig {
    /// None for the user's default file.
    pub path: Option<PathBuf>,
    /// The directory of the default file, instead of the one in the home directory.
    pub state_directory: Option<PathBuf>,
    #[serde(default)]
    pub allow_network_file_system: bool,
    #[serde(default)]
    pub durability: Durability,
    pub connect_timeout_ms: Option<u32>,
    pub operation_timeout_ms: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// A fence that was issued survives a power cut.
    #[default]
    Full,
    /// It survives any end of the process, but not a power cut or a crash of the system.
    Normal,
}

const DEFAULT_TIMEOUT_MS: u32 = 5000;

/// The checked options.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) location: Location,
    pub(super) allow_network_file_system: bool,
    pub(super) durability: Durability,
    pub(super) connect_timeout: Duration,
    pub(super) operation_timeout: Duration,
    /// How often a file in a temp directory is made to look new.
    pub(super) refresh_every: Duration,
}

/// Programs that clean temporary directories delete files that are days old.
const REFRESH_EVERY: Duration = Duration::from_secs(600);

impl SqliteConfig {
    pub(super) fn check(self) -> Result<Settings> {
        let location = match (self.path, self.state_directory) {
            (Some(path), _) => Location::File(check_path(&path)?),
            (None, Some(directory)) => Location::Directory(check_directory(directory)?),
            (None, None) => Location::Default,
        };
        Ok(Settings {
            location,
            allow_network_file_system: self.allow_network_file_system,
            durability: self.durability,
            connect_timeout: timeout("connectTimeoutMs", self.connect_timeout_ms)?,
            operation_timeout: timeout("operationTimeoutMs", self.operation_timeout_ms)?,
            refresh_every: REFRESH_EVERY,
        })
    }
}

fn check_path(path: &Path) -> Result<PathBuf> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.is_empty() {
        return Err(Error::invalid_argument(
            "The path of the SQLite file must not be empty. Leave it out for the default file",
        ));
    }
    if bytes == b":memory:" {
        return Err(Error::invalid_argument(
            "The SQLite backend needs a file, for other processes to see. For locks inside one process use the memory backend",
        ));
    }
    if bytes.contains(&0) {
        return Err(Error::invalid_argument(
            "The path of the SQLite file must not contain a NUL character",
        ));
    }
    std::path::absolute(path).map_err(|error| {
        Error::invalid_argument(format!(
            "The path {} of the SQLite file cannot be made absolute",
            path.display()
        ))
        .cause(error)
    })
}

/// Refuses a relative path, which would be another directory in each process.
fn check_directory(path: PathBuf) -> Result<PathBuf> {
    if path.is_absolute() && !path.as_os_str().as_encoded_bytes().contains(&0) {
        return Ok(path);
    }
    Err(Error::invalid_argument(
        "SYNCGUARD_STATE_DIR must be an absolute path: all processes that share locks need the same directory",
    ))
}

fn timeout(name: &str, given: Option<u32>) -> Result<Duration> {
    match given.unwrap_or(DEFAULT_TIMEOUT_MS) {
        0 => Err(Error::invalid_argument(format!(
            "{name} must be a positive integer (milliseconds)"
        ))),
        ms => Ok(Duration::from_millis(u64::from(ms))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    fn check(json: &str) -> Result<Settings> {
        serde_json::from_str::<SqliteConfig>(json).unwrap().check()
    }

    #[test]
    fn defaults_and_relative_paths() {
        let settings = check(r#"{"path":"x.db"}"#).unwrap();
        assert!(matches!(settings.location, Location::File(path) if path.is_absolute()));
        assert_eq!(settings.durability, Durability::Full);
        assert_eq!(settings.operation_timeout, Duration::from_secs(5));
        assert!(matches!(check("{}").unwrap().location, Location::Default));
    }

    #[test]
    fn mistakes_are_invalid_arguments() {
        for bad in [
            r#"{"path":""}"#,
            r#"{"path":":memory:"}"#,
            r#"{"path":"a\u0000b"}"#,
            r#"{"stateDirectory":"relative"}"#,
            r#"{"stateDirectory":""}"#,
            r#"{"operationTimeoutMs":0}"#,
            r#"{"connectTimeoutMs":0}"#,
        ] {
            assert_eq!(
                check(bad).unwrap_err().code,
                ErrorCode::InvalidArgument,
                "{bad}"
            );
        }
        assert!(serde_json::from_str::<SqliteConfig>(r#"{"durability":"low"}"#).is_err());
        assert!(serde_json::from_str::<SqliteConfig>(r#"{"pth":"x"}"#).is_err());
    }
}
