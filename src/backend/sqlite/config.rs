//! The options of the SQLite backend.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::file::default_path;
use crate::error::{Error, Result};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SqliteConfig {
    /// Without one: the user's own file in the system's temp directory.
    pub path: Option<PathBuf>,
    #[serde(default)]
    pub durability: Durability,
    pub connect_timeout_ms: Option<u32>,
    pub operation_timeout_ms: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// A fence that was handed out survives a power cut.
    #[default]
    Full,
    /// It survives the end of the process, however that comes, but not of the system.
    Normal,
}

const DEFAULT_TIMEOUT_MS: u32 = 5000;

/// The checked options.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Absolute, so that it stays the same file when the working directory changes.
    pub(super) path: Option<PathBuf>,
    pub(super) durability: Durability,
    pub(super) connect_timeout: Duration,
    pub(super) operation_timeout: Duration,
}

impl Settings {
    /// Where the file is, or would be: to name it.
    pub(super) fn file(&self) -> PathBuf {
        self.path.clone().unwrap_or_else(default_path)
    }
}

impl SqliteConfig {
    pub(super) fn check(self) -> Result<Settings> {
        Ok(Settings {
            path: self.path.as_deref().map(check_path).transpose()?,
            durability: self.durability,
            connect_timeout: timeout("connectTimeoutMs", self.connect_timeout_ms)?,
            operation_timeout: timeout("operationTimeoutMs", self.operation_timeout_ms)?,
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
        assert!(settings.path.unwrap().is_absolute());
        assert_eq!(settings.durability, Durability::Full);
        assert_eq!(settings.operation_timeout, Duration::from_secs(5));
        assert!(check("{}").unwrap().path.is_none());
    }

    #[test]
    fn mistakes_are_invalid_arguments() {
        for bad in [
            r#"{"path":""}"#,
            r#"{"path":":memory:"}"#,
            r#"{"path":"a\u0000b"}"#,
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
