//! Finds the credentials, from which Google's own library makes access tokens.
//!
//! [`adapt`] and [`Guarded`] work around what that library lacks. [`metadata`](super::metadata) asks the
//! metadata server.

use std::env;
use std::io::{self, ErrorKind};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;

use firestore::gcloud_sdk::google_cloud_auth::build_errors::Error as BuildError;
use firestore::gcloud_sdk::google_cloud_auth::credentials::service_account::AccessSpecifier;
use firestore::gcloud_sdk::google_cloud_auth::credentials::{
    CacheableResource, Credentials, CredentialsProvider, EntityTag, external_account, impersonated,
    service_account, user_account,
};
use firestore::gcloud_sdk::google_cloud_auth::errors::CredentialsError;
use firestore::gcloud_sdk::{GCP_DEFAULT_SCOPES, HeaderMap};
use futures_util::FutureExt;
use serde_json::{Value, json};
use tonic::codegen::http::{Extensions, HeaderValue, header::AUTHORIZATION};

use super::config::FirestoreConfig;
use super::error::no_credentials;
use super::metadata::MetadataServer;
use crate::backend::tls;
use crate::error::{Error, Result};

/// The file that `GOOGLE_APPLICATION_CREDENTIALS` names, or else the one that gcloud writes.
const DEFAULT_FILE: &str = "The file with the application default credentials";
const ALLOW_EXECUTABLES: &str = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES";
const PROJECT_VARIABLES: [&str; 4] = [
    "GCP_PROJECT",
    "PROJECT_ID",
    "GCP_PROJECT_ID",
    "GOOGLE_CLOUD_PROJECT",
];

pub(super) async fn credentials(config: &FirestoreConfig) -> Result<Credentials> {
    if config.is_emulator() {
        return Ok(Credentials::from(Owner(EntityTag::new())));
    }
    if let Some(content) = &config.credentials {
        return from_content(content.clone(), "The option credentials").await;
    }
    if let Some(file) = &config.key_filename {
        let content = read_file(file.into()).await.map_err(|error| {
            Error::invalid_argument(format!(
                "The file {file} of keyFilename cannot be read ({error}): check the path, and that this process may read it"
            ))
            .cause(error)
        })?;
        let content = serde_json::from_slice(&content).map_err(|_| {
            Error::invalid_argument(format!(
                "The file {file} of keyFilename is not JSON: it must be a key file as Google Cloud made it"
            ))
        })?;
        return from_content(content, &format!("The file {file} of keyFilename")).await;
    }
    match application_default().await? {
        Some(content) if content.get("type").is_none() => Err(malformed(DEFAULT_FILE)),
        Some(mut content) => {
            if let Some(project) = variable("GOOGLE_CLOUD_QUOTA_PROJECT") {
                content["quota_project_id"] = project.into();
            }
            from_content(content, DEFAULT_FILE).await
        }
        None => Ok(Credentials::from(MetadataServer::from_env()?)),
    }
}

/// Finds the project if the options do not name one.
pub(super) async fn project_id() -> Result<String> {
    if let Some(project_id) = PROJECT_VARIABLES.into_iter().find_map(variable) {
        return Ok(project_id);
    }
    let content = application_default().await.ok().flatten();
    if let Some(project_id) = content.as_ref().and_then(project_of) {
        return Ok(project_id.to_owned());
    }
    let asked = MetadataServer::from_env()?.project_id().await;
    asked.map_err(|error| {
        let message = format!(
            "The Google Cloud project is not known: set projectId or GOOGLE_CLOUD_PROJECT. Neither the options, the environment nor the credentials name it. {error}"
        );
        if error.transient {
            Error::unavailable(message)
        } else {
            Error::invalid_argument(message)
        }
    })
}

fn project_of(credentials: &Value) -> Option<&str> {
    let named = |field| credentials.get(field)?.as_str();
    named("project_id")
        .or_else(|| named("quota_project_id"))
        .or_else(|| project_of(credentials.get("source_credentials")?))
}

/// Returns the content of the file with the application default credentials. `None` if there is no such
/// file, so that the metadata server has to be asked.
async fn application_default() -> Result<Option<Value>> {
    let named = env::var_os("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from);
    let must_exist = named.is_some();
    let Some(path) = named.or_else(well_known_file) else {
        return Ok(None);
    };
    match read_file(path).await {
        Ok(content) => serde_json::from_slice(&content)
            .map(Some)
            .map_err(|_| malformed(DEFAULT_FILE)),
        Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => Ok(None),
        Err(error) => {
            let why = format!("{DEFAULT_FILE} cannot be read ({error})");
            Err(no_credentials(&why).cause(error))
        }
    }
}

/// Returns the path of the file that `gcloud auth application-default login` writes.
fn well_known_file() -> Option<PathBuf> {
    let folder = if cfg!(windows) {
        PathBuf::from(env::var_os("APPDATA")?)
    } else {
        PathBuf::from(env::var_os("HOME")?).join(".config")
    };
    Some(folder.join("gcloud/application_default_credentials.json"))
}

async fn read_file(path: PathBuf) -> io::Result<Vec<u8>> {
    tokio::task::spawn_blocking(move || std::fs::read(path))
        .await
        .map_err(io::Error::other)?
}

/// Makes credentials from the content of a file. `what` names the file or option in messages.
async fn from_content(mut content: Value, what: &str) -> Result<Credentials> {
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
                "{what} has credentials of an unknown type: expected service_account, authorized_user, impersonated_service_account or external_account"
            )));
        }
    };
    // The library's text is left out: it may quote what could not be parsed, a key included.
    built
        .map(|credentials| Credentials::from(Guarded(credentials)))
        .map_err(|_: BuildError| malformed(what))
}

fn malformed(what: &str) -> Error {
    no_credentials(&format!("{what} lacks a field, or a field is malformed"))
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
        Some("external_account") => {
            let environment = executable_environment(content);
            let Some(source) = content.get_mut("credential_source") else {
                return Ok(());
            };
            if source.get("environment_id").is_some() && aws_keys_are_in_environment() {
                // AWS Lambda has no instance metadata server, and the library would ask it for a session.
                source["imdsv2_session_token_url"] = Value::Null;
            }
            if let Some(executable) = source.get_mut("executable") {
                return adapt_executable(executable, &environment);
            }
        }
        Some("impersonated_service_account") => {
            if let Some(source) = fields.get_mut("source_credentials") {
                return adapt(source);
            }
        }
        _ => {}
    }
    Ok(())
}

fn aws_keys_are_in_environment() -> bool {
    let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
    region.is_some()
        && variable("AWS_ACCESS_KEY_ID").is_some()
        && variable("AWS_SECRET_ACCESS_KEY").is_some()
}

/// Returns the variables that [Google promises](https://google.aip.dev/auth/4117) to executables, as
/// `NAME=value`.
fn executable_environment(account: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let email = |url: &Value| {
        let (_, account) = url.as_str()?.rsplit_once("/serviceAccounts/")?;
        account.split(':').next().map(str::to_owned)
    };
    [
        ("AUDIENCE", account.get("audience").and_then(text)),
        (
            "TOKEN_TYPE",
            account.get("subject_token_type").and_then(text),
        ),
        ("INTERACTIVE", Some("0".to_owned())),
        (
            "IMPERSONATED_EMAIL",
            account
                .get("service_account_impersonation_url")
                .and_then(email),
        ),
        (
            "OUTPUT_FILE",
            account
                .pointer("/credential_source/executable/output_file")
                .and_then(text),
        ),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some(format!("GOOGLE_EXTERNAL_ACCOUNT_{name}={}", value?)))
    // The library splits the command at white space.
    .filter(|variable| !variable.contains(char::is_whitespace))
    .collect()
}

/// Adds `env` with the variables to the command, since Google's library starts the executable with this
/// process's environment only. Windows has no such program.
fn adapt_executable(executable: &mut Value, environment: &[String]) -> Result<()> {
    let has_output = executable.get("output_file").is_some_and(Value::is_string);
    if !has_output && variable(ALLOW_EXECUTABLES).as_deref() != Some("1") {
        return Err(no_credentials(&format!(
            "The executable of the credential source is only run if {ALLOW_EXECUTABLES} is 1"
        )));
    }
    if cfg!(unix)
        && let Some(command) = executable.get("command").and_then(Value::as_str)
    {
        executable["command"] = format!("/usr/bin/env {} {command}", environment.join(" ")).into();
    }
    Ok(())
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

/// The token that emulators expect. It gives full access.
#[derive(Debug)]
struct Owner(EntityTag);

impl CredentialsProvider for Owner {
    async fn headers(
        &self,
        extensions: Extensions,
    ) -> Result<CacheableResource<HeaderMap>, CredentialsError> {
        if extensions.get::<EntityTag>() == Some(&self.0) {
            return Ok(CacheableResource::NotModified);
        }
        let owner = (AUTHORIZATION, HeaderValue::from_static("Bearer owner"));
        Ok(CacheableResource::New {
            entity_tag: self.0.clone(),
            data: HeaderMap::from_iter([owner]),
        })
    }

    async fn universe_domain(&self) -> Option<String> {
        None
    }
}
