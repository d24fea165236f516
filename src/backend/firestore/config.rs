//! The options of the Firestore backend, checked before anything is opened.

use std::time::Duration;

use serde::Deserialize;
use tonic::transport::Endpoint;

use crate::error::{Error, Result};

const PRODUCTION: &str = "firestore.googleapis.com";
const DEFAULT_DATABASE: &str = "(default)";

/// The options. They are not `Debug` because they contain credentials.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FirestoreConfig {
    /// If `None`, it comes from the environment on first use.
    pub(super) project_id: Option<String>,
    pub(super) database_id: Option<String>,
    /// The `host[:port]` of an emulator, which is used without TLS and credentials.
    pub(super) emulator_host: Option<String>,
    /// The `host[:port]` of the service, if it is not the usual one.
    pub(super) host: Option<String>,
    /// If `false`, `host` is an emulator.
    pub(super) ssl: Option<bool>,
    /// The content of a credentials file.
    pub(super) credentials: Option<serde_json::Value>,
    pub(super) key_filename: Option<String>,
    pub(super) collection: String,
    pub(super) fence_collection: String,
    pub(super) cleanup_in_is_locked: bool,
    pub(super) connect_timeout_ms: u64,
    pub(super) operation_timeout_ms: u64,
}

impl Default for FirestoreConfig {
    fn default() -> Self {
        Self {
            project_id: None,
            database_id: None,
            emulator_host: None,
            host: None,
            ssl: None,
            credentials: None,
            key_filename: None,
            collection: "locks".to_owned(),
            fence_collection: "fence_counters".to_owned(),
            cleanup_in_is_locked: false,
            connect_timeout_ms: 10_000,
            operation_timeout_ms: 10_000,
        }
    }
}

impl FirestoreConfig {
    pub(super) fn validate(&self) -> Result<()> {
        check_collection("collection", &self.collection)?;
        check_collection("fenceCollection", &self.fence_collection)?;
        if self.collection == self.fence_collection {
            return Err(Error::invalid_argument(
                "Fence counter collection must differ from lock collection",
            ));
        }
        for (option, id) in [
            ("projectId", &self.project_id),
            ("databaseId", &self.database_id),
        ] {
            if let Some(id) = id {
                check_id(option, id)?;
            }
        }
        for (option, ms) in [
            ("connectTimeoutMs", self.connect_timeout_ms),
            ("operationTimeoutMs", self.operation_timeout_ms),
        ] {
            if ms == 0 || ms > i32::MAX as u64 {
                return Err(Error::invalid_argument(format!(
                    "{option} must be a positive integer (milliseconds)"
                )));
            }
        }
        // Messages name the host, so it must not carry anything else, such as a password.
        let bare = !self.authority().contains(['/', '@', '?', '#']);
        if !bare || Endpoint::from_shared(self.url()).is_err() {
            return Err(Error::invalid_argument(
                "The Firestore host must be given as host or host:port",
            ));
        }
        if self.is_emulator() && self.project_id.is_none() {
            return Err(Error::invalid_argument(
                "A Firestore emulator needs a project id: set projectId or GOOGLE_CLOUD_PROJECT (any name will do)",
            ));
        }
        Ok(())
    }

    pub(super) fn is_emulator(&self) -> bool {
        self.emulator_host.is_some() || self.ssl == Some(false)
    }

    pub(super) fn speaks_tls(&self) -> bool {
        !self.is_emulator()
    }

    pub(super) fn url(&self) -> String {
        let scheme = if self.speaks_tls() { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// Returns the server's `host[:port]`.
    fn authority(&self) -> &str {
        let host = self.emulator_host.as_ref().or(self.host.as_ref());
        host.map_or(PRODUCTION, |host| bare_host(host))
    }

    /// Names the server and the project in messages.
    pub(super) fn place(&self, project_id: Option<&str>) -> String {
        match project_id {
            Some(project_id) => format!("Firestore ({}, project {project_id})", self.authority()),
            None => format!("Firestore ({})", self.authority()),
        }
    }

    pub(super) fn database_id(&self) -> &str {
        self.database_id.as_deref().unwrap_or(DEFAULT_DATABASE)
    }

    pub(super) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }

    pub(super) fn operation_timeout(&self) -> Duration {
        Duration::from_millis(self.operation_timeout_ms)
    }
}

fn bare_host(host: &str) -> &str {
    let host = host.split_once("://").map_or(host, |(_, rest)| rest);
    host.trim_end_matches('/')
}

/// Checks Firestore's rules for collection ids. A path to a nested collection is refused, since the
/// lockId query only sees collections at the root.
fn check_collection(option: &str, id: &str) -> Result<()> {
    let reserved = id == "." || id == ".." || (id.starts_with("__") && id.ends_with("__"));
    if id.is_empty() || id.len() > 1500 || id.contains('/') || reserved {
        return Err(Error::invalid_argument(format!(
            "{option} must be a Firestore collection id: not empty, without '/', not '.', '..' or '__…__'"
        )));
    }
    Ok(())
}

/// Checks an id that becomes part of a path and of a header.
fn check_id(option: &str, id: &str) -> Result<()> {
    let valid = |b: u8| b.is_ascii_graphic() && b != b'/';
    if id.is_empty() || id == "." || id == ".." || !id.bytes().all(valid) {
        return Err(Error::invalid_argument(format!(
            "{option} must be the id of a Google Cloud project or Firestore database, not a path"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    fn parse(json: serde_json::Value) -> Result<FirestoreConfig> {
        let config: FirestoreConfig = serde_json::from_value(json)
            .map_err(|error| Error::invalid_argument(error.to_string()))?;
        config.validate()?;
        Ok(config)
    }

    #[test]
    fn bad_options_are_refused() {
        for bad in [
            serde_json::json!({"collection": "x", "fenceCollection": "x"}),
            serde_json::json!({"collection": ""}),
            serde_json::json!({"fenceCollection": ""}),
            serde_json::json!({"collection": "a/b"}),
            serde_json::json!({"collection": ".."}),
            serde_json::json!({"fenceCollection": "__fences__"}),
            serde_json::json!({"projectId": ""}),
            serde_json::json!({"projectId": "a/b"}),
            serde_json::json!({"databaseId": "é"}),
            serde_json::json!({"connectTimeoutMs": 0}),
            serde_json::json!({"operationTimeoutMs": 1e12}),
            serde_json::json!({"emulatorHost": "127.0.0.1:8080"}),
            serde_json::json!({"projectId": "p", "host": "not a host"}),
            serde_json::json!({"projectId": "p", "host": "user:secret@localhost"}),
            serde_json::json!({"projectId": "p", "emulatorHost": "localhost:1/path"}),
            serde_json::json!({"unknown": 1}),
        ] {
            let error = parse(bad.clone()).err().unwrap_or_else(|| panic!("{bad}"));
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{bad}");
        }
    }

    #[test]
    fn the_server_is_production_a_host_or_an_emulator() {
        let url = |json| parse(json).unwrap().url();
        assert_eq!(
            url(serde_json::json!({})),
            "https://firestore.googleapis.com"
        );
        assert_eq!(
            url(serde_json::json!({"host": "nam5-firestore.googleapis.com"})),
            "https://nam5-firestore.googleapis.com"
        );
        for emulator in [
            serde_json::json!({"projectId": "p", "emulatorHost": "localhost:1"}),
            serde_json::json!({"projectId": "p", "emulatorHost": "http://localhost:1/"}),
            serde_json::json!({"projectId": "p", "host": "localhost:1", "ssl": false}),
        ] {
            assert_eq!(url(emulator), "http://localhost:1");
        }
    }
}
