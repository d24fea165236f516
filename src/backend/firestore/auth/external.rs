//! Workload and workforce identity federation: what another identity provider says of this
//! client is exchanged for an access token.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::credentials::Malformed;
use super::impersonated::impersonate;
use super::subject::Subject;
use super::token::{Token, TokenError};
use super::user::post_form;
use super::{SCOPE, http};

const IAM_SCOPE: &str = "https://www.googleapis.com/auth/iam";

#[derive(Deserialize)]
pub(super) struct ExternalAccount {
    audience: String,
    subject_token_type: String,
    token_url: String,
    service_account_impersonation_url: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    workforce_pool_user_project: Option<String>,
    credential_source: Subject,
}

impl ExternalAccount {
    pub(super) fn new(content: Value) -> Result<Self, Malformed> {
        let account: Self = serde_json::from_value(content).map_err(|_| Malformed)?;
        let for_workforce = account.workforce_pool_user_project.is_some();
        if for_workforce && !account.audience.contains("/workforcePools/") {
            return Err(Malformed);
        }
        Ok(account)
    }

    pub(super) async fn token(&self) -> Result<Token, TokenError> {
        let subject = self.credential_source.token(&self.audience).await?;
        let asked_at = Instant::now();
        let answer = http::send(self.exchange(&subject)?).await?;
        let token = Token::from_answer(&answer.body, asked_at)?;
        match &self.service_account_impersonation_url {
            Some(url) => impersonate(url, None, &token, None).await,
            None => Ok(token),
        }
    }

    fn exchange(&self, subject: &str) -> Result<hyper::Request<String>, TokenError> {
        let scope = match self.service_account_impersonation_url {
            Some(_) => IAM_SCOPE,
            None => SCOPE,
        };
        let mut form = vec![
            (
                "grant_type",
                "urn:ietf:params:oauth:grant-type:token-exchange",
            ),
            (
                "requested_token_type",
                "urn:ietf:params:oauth:token-type:access_token",
            ),
            ("subject_token", subject),
            ("subject_token_type", &self.subject_token_type),
            ("audience", &self.audience),
            ("scope", scope),
        ];
        let options;
        let client = self.client_id.as_ref().zip(self.client_secret.as_ref());
        if let (None, Some(project)) = (client, &self.workforce_pool_user_project) {
            options = json!({"userProject": project}).to_string();
            form.push(("options", &options));
        }
        let mut request = post_form(&self.token_url, &form)?;
        if let Some((id, secret)) = client {
            let basic = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
            let mut basic = HeaderValue::try_from(basic)
                .map_err(|_| TokenError::lasting("the client's id is malformed"))?;
            basic.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, basic);
        }
        Ok(request)
    }
}
