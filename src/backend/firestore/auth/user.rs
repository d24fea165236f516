//! A user's refresh token is exchanged for access tokens.

use hyper::Request;
use hyper::header::CONTENT_TYPE;
use serde::Deserialize;
use tokio::time::Instant;

use super::credentials::Malformed;
use super::http;
use super::token::{Token, TokenError};

const TOKEN_SERVER: &str = "https://oauth2.googleapis.com/token";

#[derive(Deserialize)]
pub(super) struct User {
    client_id: String,
    client_secret: String,
    refresh_token: String,
    token_uri: Option<String>,
}

impl User {
    pub(super) fn new(content: serde_json::Value) -> Result<Self, Malformed> {
        serde_json::from_value(content).map_err(|_| Malformed)
    }

    pub(super) async fn token(&self) -> Result<Token, TokenError> {
        let form = [
            ("grant_type", "refresh_token"),
            ("client_id", &self.client_id),
            ("client_secret", &self.client_secret),
            ("refresh_token", &self.refresh_token),
        ];
        let asked_at = Instant::now();
        let server = self.token_uri.as_deref().unwrap_or(TOKEN_SERVER);
        let answer = http::send(post_form(server, &form)?).await?;
        Token::from_answer(&answer.body, asked_at)
    }
}

pub(super) fn post_form(url: &str, form: &[(&str, &str)]) -> Result<Request<String>, TokenError> {
    let body = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(form)
        .finish();
    Request::post(url)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(body)
        .map_err(|_| TokenError::lasting("the URL of the token server is malformed"))
}
