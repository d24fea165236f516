//! Credentials that may act for a service account get an access token of its.

use std::time::Duration;

use hyper::Request;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::credentials::{Credentials, Malformed, QUOTA_PROJECT};
use super::token::{Token, TokenError};
use super::{SCOPE, http};

const LIFE: Duration = Duration::from_secs(3_600);

#[derive(Deserialize)]
struct ImpersonatedFile {
    service_account_impersonation_url: String,
    source_credentials: Value,
    delegates: Option<Vec<String>>,
}

pub(super) struct Impersonated {
    url: String,
    source: Credentials,
    delegates: Option<Vec<String>>,
}

impl Impersonated {
    pub(super) fn new(content: Value) -> Result<Self, Malformed> {
        let file: ImpersonatedFile = serde_json::from_value(content).map_err(|_| Malformed)?;
        // Of its own kind it could go on for ever; chains have `delegates`.
        if file.source_credentials["type"] == "impersonated_service_account" {
            return Err(Malformed);
        }
        Ok(Self {
            url: file.service_account_impersonation_url,
            source: Credentials::from_content(file.source_credentials).map_err(|_| Malformed)?,
            delegates: file.delegates,
        })
    }

    pub(super) async fn token(&self) -> Result<Token, TokenError> {
        let source = Box::pin(self.source.token()).await?;
        let quota_project = self.source.quota_project.as_deref();
        impersonate(&self.url, self.delegates.as_deref(), &source, quota_project).await
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImpersonationAnswer {
    access_token: String,
}

/// `url`: of `generateAccessToken` of the service account.
pub(super) async fn impersonate(
    url: &str,
    delegates: Option<&[String]>,
    source: &Token,
    quota_project: Option<&str>,
) -> Result<Token, TokenError> {
    let mut body = json!({"scope": [SCOPE], "lifetime": format!("{}s", LIFE.as_secs())});
    if let Some(delegates) = delegates {
        body["delegates"] = json!(delegates);
    }
    let malformed = || TokenError::lasting("the URL of the impersonation is malformed");
    let mut request = Request::post(url)
        .header(CONTENT_TYPE, "application/json")
        .header(AUTHORIZATION, source.authorization.clone())
        .body(body.to_string())
        .map_err(|_| malformed())?;
    if let Some(project) = quota_project.and_then(|it| HeaderValue::try_from(it).ok()) {
        request.headers_mut().insert(QUOTA_PROJECT, project);
    }
    let expires_at = Instant::now() + LIFE;
    let answer = http::send(request).await?;
    let answer: ImpersonationAnswer = serde_json::from_slice(&answer.body)
        .map_err(|_| TokenError::lasting("the answer to the impersonation is not a token"))?;
    Token::bearer(&answer.access_token, Some(expires_at))
}
