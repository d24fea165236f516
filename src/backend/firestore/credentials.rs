//! Finds the credentials, from which Google's own library makes access tokens.
//!
//! [`adapt`] and [`Guarded`] work around what that library lacks. [`metadata`](super::metadata) asks the
//! metadata server.

use std::env;
use std::io::ErrorKind;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use firestore::gcloud_sdk::google_cloud_auth::build_errors::Error as BuildError;
use firestore::gcloud_sdk::google_cloud_auth::credentials::service_account::AccessSpecifier;
use firestore::gcloud_sdk::google_cloud_auth::credentials::{
    CacheableResource, Credentials, CredentialsProvider, anonymous, external_account, impersonated,
    service_account, user_account,
};
use firestore::gcloud_sdk::google_cloud_auth::errors::CredentialsError;
use firestore::gcloud_sdk::{GCP_DEFAULT_SCOPES, HeaderMap};
use futures_util::FutureExt;
use serde_json::{Value, json};
use tonic::codegen::http::Extensions;

use super::config::FirestoreConfig;
use super::error::no_credentials;
use super::metadata::MetadataServer;
use crate::backend::backoff::is_away;
use crate::backend::tls;
use crate::error::{Error, ErrorCode, Result};

const ALLOW_EXECUTABLES: &str = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES";

/// Where access tokens come from.
pub(super) enum Source {
    /// An emulator needs none.
    Emulator,
    File(File),
    MetadataServer,
}

/// The content of a credentials file.
pub(super) struct File {
    content: Value,
    /// Names the file or the option in messages.
    name: String,
}

impl Source {
    /// Reads the file with the credentials, if there is one.
    pub(super) fn find(config: &FirestoreConfig) -> Result<Self> {
        if config.is_emulator() {
            return Ok(Self::Emulator);
        }
        if let Some(content) = &config.credentials {
            return Ok(Self::File(File {
                content: content.clone(),
                name: "The option credentials".to_owned(),
            }));
        }
        match &config.key_filename {
            Some(path) => key_file(path).map(Self::File),
            None => application_default(),
        }
    }

    /// Returns the project, for options that do not name one.
    pub(super) async fn project_id(&self) -> Result<String> {
        if let Self::File(File { content, .. }) = self
            && let Some(project_id) = project_of(content)
        {
            return Ok(project_id.to_owned());
        }
        let asked = MetadataServer::from_env()?.project_id().await;
        asked.map_err(|error| Error {
            code: if is_away(&error) {
                ErrorCode::ServiceUnavailable
            } else {
                ErrorCode::InvalidArgument
            },
            message: format!(
                "The Google Cloud project is not known: set projectId or GOOGLE_CLOUD_PROJECT. Neither the options, the environment nor the credentials name it. {error}"
            ),
            ..error
        })
    }

    pub(super) async fn credentials(self) -> Result<Credentials> {
        match self {
            Self::Emulator => Ok(anonymous::Builder::new().build()),
            Self::File(file) => file.credentials().await,
            Self::MetadataServer => Ok(Credentials::from(MetadataServer::from_env()?)),
        }
    }
}

fn project_of(credentials: &Value) -> Option<&str> {
    let named = |field| credentials.get(field)?.as_str().filter(|id| !id.is_empty());
    named("project_id")
        .or_else(|| named("quota_project_id"))
        .or_else(|| project_of(credentials.get("source_credentials")?))
}

fn key_file(path: &str) -> Result<File> {
    let name = format!("The file {path} of keyFilename");
    let content = std::fs::read(path).map_err(|error| {
        Error::invalid_argument(format!(
            "{name} cannot be read ({error}): check the path, and that this process may read it"
        ))
        .cause(error)
    })?;
    let content = serde_json::from_slice(&content).map_err(|_| {
        Error::invalid_argument(format!(
            "{name} is not JSON: it must be a key file as Google Cloud made it"
        ))
    })?;
    Ok(File { content, name })
}

/// Reads the file that `GOOGLE_APPLICATION_CREDENTIALS` names, or else the one that gcloud writes.
fn application_default() -> Result<Source> {
    let named = env::var_os("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from);
    let must_exist = named.is_some();
    let Some(path) = named.or_else(well_known_file) else {
        return Ok(Source::MetadataServer);
    };
    let name = "The file with the application default credentials".to_owned();
    let content = match std::fs::read(path) {
        Ok(content) => content,
        Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => {
            return Ok(Source::MetadataServer);
        }
        Err(error) => {
            return Err(no_credentials(&format!("{name} cannot be read ({error})")).cause(error));
        }
    };
    let mut content: Value = serde_json::from_slice(&content).map_err(|_| malformed(&name))?;
    if content.get("type").is_none() {
        return Err(malformed(&name));
    }
    if let Some(project) = variable("GOOGLE_CLOUD_QUOTA_PROJECT") {
        content["quota_project_id"] = project.into();
    }
    Ok(Source::File(File { content, name }))
}

/// Returns the path of the file that `gcloud auth application-default login` writes.
fn well_known_file() -> Option<PathBuf> {
    let folder = if cfg!(windows) {
        PathBuf::from(env::var_os("APPDATA")?)
    } else {
        Path::new(&env::var_os("HOME")?).join(".config")
    };
    Some(folder.join("gcloud/application_default_credentials.json"))
}

impl File {
    async fn credentials(self) -> Result<Credentials> {
        let Self { mut content, name } = self;
        let scopes = GCP_DEFAULT_SCOPES.iter();
        adapt(&mut content)?;
        let kind = content.get("type").and_then(Value::as_str);
        let kind = kind.unwrap_or("service_account").to_owned();
        if kind != "service_account" && !tls::has_system_roots().await {
            return Err(no_credentials(
                "The system has no root certificates to verify token servers with: install them (in Debian's images the package ca-certificates), or name a file with them in SSL_CERT_FILE",
            ));
        }
        let built = match kind.as_str() {
            "service_account" => service_account::Builder::new(content)
                .with_access_specifier(AccessSpecifier::from_scopes(scopes))
                .build(),
            "authorized_user" => user_account::Builder::new(content)
                .with_scopes(scopes)
                .build(),
            "impersonated_service_account" => impersonated::Builder::new(content)
                .with_scopes(scopes)
                .build(),
            "external_account" => external_account::Builder::new(content)
                .with_scopes(scopes)
                .build(),
            _ => {
                return Err(Error::invalid_argument(format!(
                    "{name} has credentials of an unknown type: expected service_account, authorized_user, impersonated_service_account or external_account"
                )));
            }
        };
        // The library's text is left out: it may quote what could not be parsed, a key included.
        built
            .map(|credentials| Credentials::from(Guarded(credentials)))
            .map_err(|_: BuildError| malformed(&name))
    }
}

fn malformed(name: &str) -> Error {
    no_credentials(&format!("{name} lacks a field, or a field is malformed"))
}

/// Changes credentials so that Google's library accepts them and can use them.
fn adapt(content: &mut Value) -> Result<()> {
    let Some(fields) = content.as_object_mut() else {
        return Ok(());
    };
    match fields.get("type").and_then(Value::as_str) {
        // Google's JavaScript clients only need the email address and the key.
        None | Some("service_account") => {
            for optional in ["private_key_id", "project_id"] {
                fields.entry(optional).or_insert_with(|| json!(""));
            }
        }
        Some("impersonated_service_account") => {
            if let Some(source) = fields.get_mut("source_credentials") {
                return adapt(source);
            }
        }
        Some("external_account") => adapt_external_account(content)?,
        _ => {}
    }
    Ok(())
}

fn adapt_external_account(account: &mut Value) -> Result<()> {
    let variables = executable_variables(account);
    let Some(source) = account.get_mut("credential_source") else {
        return Ok(());
    };
    let has_region = ["AWS_REGION", "AWS_DEFAULT_REGION"].map(variable);
    let has_keys = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].map(variable);
    if source.get("environment_id").is_some()
        && has_region.iter().any(Option::is_some)
        && has_keys.iter().all(Option::is_some)
    {
        // AWS Lambda has no instance metadata server, and the library would ask it for a session.
        source["imdsv2_session_token_url"] = Value::Null;
    }
    let Some(executable) = source.get_mut("executable") else {
        return Ok(());
    };
    let has_output = executable.get("output_file").is_some_and(Value::is_string);
    if !has_output && variable(ALLOW_EXECUTABLES).as_deref() != Some("1") {
        return Err(no_credentials(&format!(
            "The executable of the credential source is only run if {ALLOW_EXECUTABLES} is 1"
        )));
    }
    if cfg!(unix)
        && let Some(command) = executable.get("command").and_then(Value::as_str)
    {
        // The library starts the executable with this process's environment only. Windows has no
        // such program.
        executable["command"] = format!("/usr/bin/env {variables} {command}").into();
    }
    Ok(())
}

/// Returns the variables that [Google promises](https://google.aip.dev/auth/4117) to executables, as
/// arguments of `env`.
fn executable_variables(account: &Value) -> String {
    let text = |pointer| account.pointer(pointer).and_then(Value::as_str);
    let impersonated = text("/service_account_impersonation_url").and_then(|url| {
        let (_, account) = url.rsplit_once("/serviceAccounts/")?;
        account.split(':').next()
    });
    [
        ("AUDIENCE", text("/audience")),
        ("TOKEN_TYPE", text("/subject_token_type")),
        ("INTERACTIVE", Some("0")),
        ("IMPERSONATED_EMAIL", impersonated),
        (
            "OUTPUT_FILE",
            text("/credential_source/executable/output_file"),
        ),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some(format!("GOOGLE_EXTERNAL_ACCOUNT_{name}={}", value?)))
    // The library splits the command at white space.
    .filter(|variable| !variable.contains(char::is_whitespace))
    .collect::<Vec<_>>()
    .join(" ")
}

/// Returns a variable of the environment. `None` if it is empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Turns a panic of Google's library into an error. It panics if a token expired in the past, and if the
/// system has no root certificates.
#[derive(Debug)]
struct Guarded(Credentials);

impl CredentialsProvider for Guarded {
    async fn headers(
        &self,
        extensions: Extensions,
    ) -> Result<CacheableResource<HeaderMap>, CredentialsError> {
        let asking = AssertUnwindSafe(self.0.headers(extensions));
        asking.catch_unwind().await.unwrap_or_else(|_| {
            Err(CredentialsError::from_msg(
                false,
                "Google's library panicked",
            ))
        })
    }

    async fn universe_domain(&self) -> Option<String> {
        None
    }
}
