//! An access token, or why there is none.

use std::fmt;
use std::time::Duration;

use hyper::header::HeaderValue;
use serde::Deserialize;
use tokio::time::Instant;

#[derive(Clone)]
pub(super) struct Token {
    /// What the header `authorization` says.
    pub(super) authorization: HeaderValue,
    pub(super) expires_at: Option<Instant>,
}

impl Token {
    pub(super) fn bearer(text: &str, expires_at: Option<Instant>) -> Result<Self, TokenError> {
        Self::of("Bearer", text, expires_at)
    }

    fn of(kind: &str, text: &str, expires_at: Option<Instant>) -> Result<Self, TokenError> {
        let mut authorization = HeaderValue::try_from(format!("{kind} {text}"))
            .map_err(|_| TokenError::lasting("an access token is not a valid header"))?;
        authorization.set_sensitive(true);
        Ok(Self {
            authorization,
            expires_at,
        })
    }
}

/// What OAuth 2.0 servers answer.
#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    expires_in: Option<u64>,
    token_type: String,
}

impl Token {
    /// `asked_at`: its life is counted from there, to be on the safe side.
    pub(super) fn from_answer(body: &[u8], asked_at: Instant) -> Result<Self, TokenError> {
        let answer: TokenAnswer = serde_json::from_slice(body)
            .map_err(|_| TokenError::lasting("the token server's answer is not a token"))?;
        let expires_at = answer
            .expires_in
            .and_then(|seconds| asked_at.checked_add(Duration::from_secs(seconds)));
        Self::of(&answer.token_type, &answer.access_token, expires_at)
    }
}

/// Its text never has anything of a credential or of an answer in it.
#[derive(Debug, Clone)]
pub(in crate::backend::firestore) struct TokenError {
    /// It may pass by itself.
    pub(in crate::backend::firestore) transient: bool,
    text: String,
}

impl TokenError {
    pub(super) fn passing(text: impl Into<String>) -> Self {
        Self {
            transient: true,
            text: text.into(),
        }
    }

    pub(super) fn lasting(text: impl Into<String>) -> Self {
        Self {
            transient: false,
            text: text.into(),
        }
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for TokenError {}
