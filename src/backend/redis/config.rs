//! The options of a Redis backend.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use crate::backend::credentials::CredentialsProvider;
use crate::backend::tls::TlsOptions;
use crate::error::{Error, Result};

const DEFAULT_TIMEOUT_MS: f64 = 5000.0;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedisConfig {
    pub(super) deployment: Deployment,
    #[serde(default)]
    pub(super) login: Login,
    /// The number by which to ask the program for credentials, if it has a function for them.
    pub ask_credentials: Option<u64>,
    pub(super) tls: Option<TlsOptions>,
    /// 4 or 6 to use only that version of IP.
    pub(super) family: Option<u8>,
    pub(super) key_prefix: Option<String>,
    /// A prefix that the user's Redis client puts before every key.
    #[serde(default)]
    pub(super) client_key_prefix: String,
    #[serde(default)]
    pub(super) cleanup_in_is_locked: bool,
    pub(super) connect_timeout_ms: Option<f64>,
    pub(super) operation_timeout_ms: Option<f64>,
}

/// The options of a backend that uses a client of the program.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientConfig {
    /// Default: `syncguard`.
    pub(super) key_prefix: Option<String>,
    /// Whether the client is connected to a cluster.
    #[serde(default)]
    pub(super) cluster: bool,
    #[serde(default)]
    pub(super) cleanup_in_is_locked: bool,
    /// How long the client may take to answer. Default: 5000.
    operation_timeout_ms: Option<f64>,
}

impl ClientConfig {
    pub(super) fn operation_timeout(&self) -> Result<Duration> {
        timeout("operationTimeoutMs", self.operation_timeout_ms)
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub(crate) enum Deployment {
    Server {
        node: Node,
    },
    Sentinel {
        sentinels: Vec<Node>,
        name: String,
        #[serde(default)]
        login: Login,
        tls: Option<Box<TlsOptions>>,
        /// The addresses of servers that the sentinels know as `host:port`.
        #[serde(default)]
        nat_map: HashMap<String, Node>,
    },
    Cluster {
        nodes: Vec<Node>,
        #[serde(default)]
        nat_map: HashMap<String, Node>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(crate) enum Node {
    Tcp { host: String, port: u16 },
    Unix { path: String },
}

impl Node {
    pub(super) fn tcp(host: &str, port: u16) -> Self {
        Self::Tcp {
            host: host.to_owned(),
            port,
        }
    }
}

/// Writes the address for messages.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') && !host.starts_with('[') => {
                write!(f, "[{host}]:{port}")
            }
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix { path } => f.write_str(path),
        }
    }
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Login {
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) db: u32,
    pub(super) client_name: Option<String>,
    /// Asked for username and password for each new connection.
    #[serde(skip)]
    pub(super) provider: Option<CredentialsProvider>,
}

/// Prints no password.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(…)")
    }
}

impl RedisConfig {
    /// Asks the program for the credentials of the servers that have the locks.
    pub fn with_credentials(mut self, provider: Option<CredentialsProvider>) -> Self {
        self.login.provider = provider;
        self
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.deployment, Deployment::Cluster { .. })
    }

    pub(super) fn connect_timeout(&self) -> Result<Duration> {
        timeout("connectTimeoutMs", self.connect_timeout_ms)
    }

    pub(super) fn operation_timeout(&self) -> Result<Duration> {
        timeout("operationTimeoutMs", self.operation_timeout_ms)
    }

    pub(super) fn check(&self) -> Result<()> {
        match &self.deployment {
            Deployment::Server { .. } => {}
            Deployment::Sentinel {
                sentinels, name, ..
            } => {
                if sentinels.is_empty() || name.is_empty() {
                    return Err(Error::invalid_argument(
                        "Redis Sentinel needs at least one sentinel and the name of the master group",
                    ));
                }
            }
            Deployment::Cluster { nodes, .. } => {
                if nodes.is_empty() {
                    return Err(Error::invalid_argument(
                        "Redis Cluster needs at least one node to start with",
                    ));
                }
                if self.login.db != 0 {
                    return Err(Error::invalid_argument("Redis Cluster has only database 0"));
                }
            }
        }
        if !matches!(self.family, None | Some(4 | 6)) {
            return Err(Error::invalid_argument("family must be 4 or 6"));
        }
        Ok(())
    }
}

fn timeout(name: &str, given: Option<f64>) -> Result<Duration> {
    let ms = given.unwrap_or(DEFAULT_TIMEOUT_MS);
    if ms >= 1.0 && ms <= f64::from(u32::MAX) {
        Ok(Duration::from_secs_f64(ms / 1000.0))
    } else {
        Err(Error::invalid_argument(format!(
            "{name} must be a positive number (milliseconds)"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<RedisConfig, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn reads_what_javascript_sends() {
        let config = read(
            r#"{"deployment":{"kind":"sentinel","sentinels":[{"host":"a","port":1}],"name":"m",
                "natMap":{"10.0.0.1:6379":{"host":"b","port":2}}},
                "login":{"username":"u","password":"hunter2","db":2},"tls":{"ca":["x"]},"operationTimeoutMs":250}"#,
        )
        .unwrap();
        assert_eq!(
            config.operation_timeout().unwrap(),
            Duration::from_millis(250)
        );
        assert_eq!(
            config.connect_timeout().unwrap(),
            Duration::from_millis(5000)
        );
        assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
    }

    #[test]
    fn nodes_are_named_by_their_addresses() {
        for (node, name) in [
            (Node::tcp("localhost", 6379), "localhost:6379"),
            (Node::tcp("::1", 1), "[::1]:1"),
            (Node::tcp("[::1]", 1), "[::1]:1"),
        ] {
            assert_eq!(node.to_string(), name);
        }
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        let server = r#""deployment":{"kind":"server","node":{"path":"/tmp/redis.sock"}}"#;
        assert!(read(&format!("{{{server}}}")).is_ok());
        assert!(read(&format!("{{{server},\"nope\":1}}")).is_err());
        assert!(read(r#"{"deployment":{"kind":"other"}}"#).is_err());
        let bad_timeout = read(&format!("{{{server},\"connectTimeoutMs\":0}}")).unwrap();
        assert!(bad_timeout.connect_timeout().is_err());
        let no_nodes = read(r#"{"deployment":{"kind":"cluster","nodes":[]}}"#).unwrap();
        assert!(no_nodes.check().is_err());
    }
}
