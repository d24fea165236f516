//! Gets access tokens and the project from Google Cloud's metadata server.
//!
//! Google's library can do this too. But it asks through the proxies of the environment, which cannot
//! reach the server and must not see its tokens, and it panics if the system has no root certificates.

use std::env;
use std::time::Duration;

use firestore::gcloud_sdk::google_cloud_auth::credentials::{
    CacheableResource, CredentialsProvider, EntityTag,
};
use firestore::gcloud_sdk::google_cloud_auth::errors::CredentialsError;
use firestore::gcloud_sdk::{GCP_DEFAULT_SCOPES, HeaderMap};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::codegen::http::{Extensions, HeaderValue, header::AUTHORIZATION};

use super::error::token_server_failed;
use crate::backend::backoff::is_away;
use crate::backend::unreachable::Reason;
use crate::error::{Error, ErrorCode, Result};

const USUAL_HOST: &str = "metadata.google.internal";
const FLAVOR: &str = "metadata-flavor";
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The server issues a new token from five minutes before the old one expires.
const RENEW_BEFORE_EXPIRY: Duration = Duration::from_secs(240);
const RENEW_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct MetadataServer {
    host: String,
    http: Client,
    token: Mutex<Option<Token>>,
}

#[derive(Debug)]
struct Token {
    headers: HeaderMap,
    renew_at: Instant,
    expires_at: Instant,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    expires_in: u64,
    token_type: String,
}

/// Its errors are `ServiceUnavailable` if a later attempt may succeed. Their messages are sentences
/// without the full stop, and without any part of a credential or an answer.
impl MetadataServer {
    pub(super) fn from_env() -> Result<Self> {
        let host = env::var("GCE_METADATA_HOST");
        Self::at(host.unwrap_or_else(|_| USUAL_HOST.to_owned()))
    }

    pub(super) fn at(host: String) -> Result<Self> {
        let http = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .tls_certs_only([])
            .timeout(REQUEST_TIMEOUT)
            .build()
            .map_err(|_| {
                Error::internal("The HTTP client for the metadata server could not be set up")
            })?;
        Ok(Self {
            host,
            http,
            token: Mutex::default(),
        })
    }

    pub(super) async fn project_id(&self) -> Result<String> {
        let answer = self.ask("project/project-id").await?;
        // Another server may have answered, such as a network that asks for a login first.
        let flavor = answer.headers().get(FLAVOR);
        let is_google = flavor.is_some_and(|it| it == "Google");
        match answer.text().await {
            Ok(project_id) if is_google => Ok(project_id.trim().to_owned()),
            _ => Err(self.unreadable()),
        }
    }

    async fn new_token(&self) -> Result<Token> {
        let scopes = GCP_DEFAULT_SCOPES.join(",");
        let path = format!("instance/service-accounts/default/token?scopes={scopes}");
        // The token's life is counted from before the request: it may expire early here, but never late.
        let asked_at = Instant::now();
        let answer = self.ask(&path).await?.bytes().await;
        let answer = answer.map_err(|_| self.unreadable())?;
        let token: TokenAnswer = serde_json::from_slice(&answer).map_err(|_| self.unreadable())?;
        let authorization = format!("{} {}", token.token_type, token.access_token);
        let mut authorization =
            HeaderValue::try_from(authorization).map_err(|_| self.unreadable())?;
        // It is not printed.
        authorization.set_sensitive(true);
        let life = Duration::from_secs(token.expires_in.min(24 * 60 * 60));
        let renew_in = life.saturating_sub(RENEW_BEFORE_EXPIRY).max(RENEW_PAUSE);
        Ok(Token {
            headers: HeaderMap::from_iter([(AUTHORIZATION, authorization)]),
            renew_at: asked_at + renew_in.min(life),
            expires_at: asked_at + life,
        })
    }

    async fn ask(&self, path: &str) -> Result<Response> {
        let url = format!("http://{}/computeMetadata/v1/{path}", self.host);
        let request = self.http.get(url).header(FLAVOR, "Google");
        let asked = request.send().await.and_then(Response::error_for_status);
        asked.map_err(|error| {
            let name = format!("the metadata server {}", self.host);
            let (reason, text) = token_server_failed(&name, &error);
            let may_pass = match error.status() {
                Some(status) => StatusCode::is_server_error(&status),
                // An unknown name means that there is no metadata server.
                None => reason != Reason::HostNotFound,
            };
            if may_pass {
                Error::unavailable(text)
            } else {
                Error::new(ErrorCode::AuthFailed, text)
            }
        })
    }

    fn unreadable(&self) -> Error {
        let text = format!("The server at {} is not a metadata server", self.host);
        Error::new(ErrorCode::AuthFailed, text)
    }
}

impl CredentialsProvider for MetadataServer {
    /// The first caller that finds the token about to expire renews it. If that fails, the old token is
    /// used until it expires.
    async fn headers(
        &self,
        _: Extensions,
    ) -> Result<CacheableResource<HeaderMap>, CredentialsError> {
        let mut current = self.token.lock().await;
        let now = Instant::now();
        let token = match current.take() {
            Some(token) if now < token.renew_at => token,
            old => match (self.new_token().await, old) {
                (Ok(new), _) => new,
                (Err(_), Some(old)) if now < old.expires_at => Token {
                    renew_at: now + RENEW_PAUSE,
                    ..old
                },
                (Err(error), _) => {
                    return Err(CredentialsError::from_source(is_away(&error), error));
                }
            },
        };
        let data = current.insert(token).headers.clone();
        Ok(CacheableResource::New {
            entity_tag: EntityTag::new(),
            data,
        })
    }

    async fn universe_domain(&self) -> Option<String> {
        None
    }
}
