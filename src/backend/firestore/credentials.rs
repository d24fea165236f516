//! Who this client is to Firestore.

use firestore::gcloud_sdk::google_cloud_auth::build_errors::Error as BuildError;
use firestore::gcloud_sdk::google_cloud_auth::credentials::service_account::AccessSpecifier;
use firestore::gcloud_sdk::google_cloud_auth::credentials::{
    Builder, CacheableResource, Credentials, CredentialsProvider, EntityTag, external_account,
    impersonated, service_account, user_account,
};
use firestore::gcloud_sdk::google_cloud_auth::errors::CredentialsError;
use firestore::gcloud_sdk::{GCP_DEFAULT_SCOPES, HeaderMap};
use serde_json::{Value, json};

use super::config::FirestoreConfig;
use super::error::no_credentials;
use crate::error::{Error, Result};

pub(super) async fn credentials(config: &FirestoreConfig) -> Result<Credentials> {
    if config.is_emulator() {
        return Ok(Credentials::from(Owner(EntityTag::new())));
    }
    if let Some(content) = &config.credentials {
        return from_content(content.clone());
    }
    if let Some(file) = &config.key_filename {
        let content = read_file(file.clone()).await?;
        return from_content(content);
    }
    Builder::default()
        .with_scopes(GCP_DEFAULT_SCOPES.iter())
        .build()
        .map_err(|error| cannot_build(&error))
}

async fn read_file(file: String) -> Result<Value> {
    let content = tokio::task::spawn_blocking(move || std::fs::read(file))
        .await
        .map_err(|_| Error::internal("The credentials file could not be read"))?
        .map_err(|error| {
            Error::invalid_argument("The file of keyFilename cannot be read").cause(error)
        })?;
    serde_json::from_slice(&content)
        .map_err(|_| Error::invalid_argument("The file of keyFilename is not JSON"))
}

fn from_content(mut content: Value) -> Result<Credentials> {
    let scopes = GCP_DEFAULT_SCOPES.iter();
    let kind = content.get("type").and_then(Value::as_str);
    let built = match kind.unwrap_or("service_account") {
        "service_account" => {
            // Google's JavaScript clients do with the e-mail address and the key alone.
            if let Some(fields) = content.as_object_mut() {
                for optional in ["private_key_id", "project_id"] {
                    fields.entry(optional).or_insert_with(|| json!(""));
                }
            }
            service_account::Builder::new(content)
                .with_access_specifier(AccessSpecifier::from_scopes(scopes))
                .build()
        }
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
            return Err(Error::invalid_argument(
                "The credentials are of an unknown type: expected service_account, authorized_user, impersonated_service_account or external_account",
            ));
        }
    };
    built.map_err(|error| cannot_build(&error))
}

fn cannot_build(error: &BuildError) -> Error {
    // The text of a parse error may quote what it could not parse, a key included.
    let cause = if error.is_parsing() || error.is_missing_field() {
        "a field is missing or malformed"
    } else if error.is_not_supported() || error.is_unknown_type() {
        "this type of credentials is not supported"
    } else {
        "none were found"
    };
    no_credentials().cause(cause)
}

/// What emulators expect instead of credentials.
#[derive(Debug)]
struct Owner(EntityTag);

impl CredentialsProvider for Owner {
    async fn headers(
        &self,
        extensions: tonic::codegen::http::Extensions,
    ) -> Result<CacheableResource<HeaderMap>, CredentialsError> {
        if extensions.get::<EntityTag>() == Some(&self.0) {
            return Ok(CacheableResource::NotModified);
        }
        let mut headers = HeaderMap::new();
        headers.insert(
            tonic::codegen::http::header::AUTHORIZATION,
            tonic::codegen::http::HeaderValue::from_static("Bearer owner"),
        );
        Ok(CacheableResource::New {
            entity_tag: self.0.clone(),
            data: headers,
        })
    }

    async fn universe_domain(&self) -> Option<String> {
        None
    }
}
