//! Where credentials are found, and of which kind they are.

use std::env;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use serde_json::Value;

use super::external::ExternalAccount;
use super::impersonated::Impersonated;
use super::metadata::MetadataServer;
use super::service_account::ServiceAccount;
use super::token::{Token, TokenError};
use super::user::User;
use crate::backend::firestore::config::FirestoreConfig;
use crate::backend::firestore::error::no_credentials;
use crate::error::{Error, Result};

pub(super) const QUOTA_PROJECT: &str = "x-goog-user-project";

/// Nothing of it is told: what cannot be read may be a key.
pub(super) struct Malformed;

pub(in crate::backend::firestore) struct Credentials {
    source: Source,
    /// Who pays, when it is not the project of the credentials.
    pub(super) quota_project: Option<String>,
}

enum Source {
    /// What emulators expect.
    Owner,
    ServiceAccount(ServiceAccount),
    User(User),
    Impersonated(Box<Impersonated>),
    External(Box<ExternalAccount>),
    Metadata(MetadataServer),
}

pub(in crate::backend::firestore) async fn credentials(
    config: &FirestoreConfig,
) -> Result<Credentials> {
    if config.is_emulator() {
        return Ok(Source::Owner.into());
    }
    if let Some(content) = &config.credentials {
        return Credentials::from_content(content.clone());
    }
    if let Some(file) = &config.key_filename {
        let content = read_file(file.into()).await.map_err(|error| {
            Error::invalid_argument("The file of keyFilename cannot be read").cause(error)
        })?;
        let content = serde_json::from_slice(&content)
            .map_err(|_| Error::invalid_argument("The file of keyFilename is not JSON"))?;
        return Credentials::from_content(content);
    }
    let mut credentials = match application_default().await? {
        Some(content) if content.get("type").is_none() => return Err(malformed()),
        Some(content) => Credentials::from_content(content)?,
        None => Source::Metadata(MetadataServer::from_env()).into(),
    };
    if let Ok(project) = env::var("GOOGLE_CLOUD_QUOTA_PROJECT") {
        credentials.quota_project = Some(project);
    }
    Ok(credentials)
}

/// The content of the file with the application default credentials. Without one, the metadata
/// server knows.
pub(super) async fn application_default() -> Result<Option<Value>> {
    let named = env::var_os("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from);
    let must_exist = named.is_some();
    let Some(path) = named.or_else(well_known_file) else {
        return Ok(None);
    };
    match read_file(path).await {
        Ok(content) => serde_json::from_slice(&content)
            .map(Some)
            .map_err(|_| malformed()),
        Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => Ok(None),
        Err(error) => Err(no_credentials().cause(error)),
    }
}

/// Where `gcloud auth application-default login` leaves it.
fn well_known_file() -> Option<PathBuf> {
    let folder = if cfg!(windows) {
        PathBuf::from(env::var_os("APPDATA")?)
    } else {
        PathBuf::from(env::var_os("HOME")?).join(".config")
    };
    Some(folder.join("gcloud/application_default_credentials.json"))
}

pub(super) async fn read_file(path: PathBuf) -> io::Result<Vec<u8>> {
    tokio::task::spawn_blocking(move || std::fs::read(path))
        .await
        .map_err(io::Error::other)?
}

fn malformed() -> Error {
    no_credentials().cause("a field is missing or malformed")
}

impl From<Source> for Credentials {
    fn from(source: Source) -> Self {
        Self {
            source,
            quota_project: None,
        }
    }
}

impl Credentials {
    pub(super) fn from_content(content: Value) -> Result<Self> {
        let kind = content.get("type").and_then(Value::as_str);
        let quota_project = content.get("quota_project_id").and_then(Value::as_str);
        let quota_project = quota_project.map(str::to_owned);
        let source = match kind.unwrap_or("service_account") {
            "service_account" => ServiceAccount::new(content).map(Source::ServiceAccount),
            "authorized_user" => User::new(content).map(Source::User),
            "impersonated_service_account" => {
                Impersonated::new(content).map(|it| Source::Impersonated(Box::new(it)))
            }
            "external_account" => {
                ExternalAccount::new(content).map(|it| Source::External(Box::new(it)))
            }
            _ => {
                return Err(Error::invalid_argument(
                    "The credentials are of an unknown type: expected service_account, authorized_user, impersonated_service_account or external_account",
                ));
            }
        };
        Ok(Self {
            source: source.map_err(|Malformed| malformed())?,
            quota_project,
        })
    }

    pub(super) async fn token(&self) -> Result<Token, TokenError> {
        match &self.source {
            Source::Owner => Token::bearer("owner", None),
            Source::ServiceAccount(account) => account.token(),
            Source::User(user) => user.token().await,
            Source::Impersonated(impersonated) => impersonated.token().await,
            Source::External(account) => account.token().await,
            Source::Metadata(server) => server.token().await,
        }
    }
}
