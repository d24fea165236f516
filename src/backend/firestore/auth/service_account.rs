//! A service account's key signs its access tokens itself.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::SigningKey;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::SCOPE;
use super::credentials::Malformed;
use super::token::{Token, TokenError};
use crate::lock::time::system_now_ms;

const LIFE: Duration = Duration::from_secs(3_600);
/// Issued a little in the past, for servers whose clocks are behind.
const CLOCK_SLACK: Duration = Duration::from_secs(10);

/// The id of the key is optional, as in Google's JavaScript clients.
#[derive(Deserialize)]
struct KeyFile {
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
}

pub(super) struct ServiceAccount {
    email: String,
    key_id: Option<String>,
    key: Arc<dyn SigningKey>,
}

impl ServiceAccount {
    pub(super) fn new(content: serde_json::Value) -> Result<Self, Malformed> {
        let file: KeyFile = serde_json::from_value(content).map_err(|_| Malformed)?;
        let key =
            PrivateKeyDer::from_pem_slice(file.private_key.as_bytes()).map_err(|_| Malformed)?;
        Ok(Self {
            email: file.client_email,
            key_id: file.private_key_id,
            key: any_supported_type(&key).map_err(|_| Malformed)?,
        })
    }

    pub(super) fn token(&self) -> Result<Token, TokenError> {
        let signer = self
            .key
            .choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256])
            .ok_or_else(|| TokenError::lasting("the service account's key is not an RSA key"))?;
        let life = LIFE - CLOCK_SLACK;
        let expires_at = Instant::now() + life;
        let now = system_now_ms() / 1_000;
        let mut header = json!({"alg": "RS256", "typ": "JWT"});
        if let Some(key_id) = &self.key_id {
            header["kid"] = json!(key_id);
        }
        let claims = json!({
            "iss": self.email,
            "sub": self.email,
            "scope": SCOPE,
            "iat": now.saturating_sub(CLOCK_SLACK.as_secs()),
            "exp": now + life.as_secs(),
        });
        let encode = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
        let signed = format!(
            "{}.{}",
            encode(header.to_string().as_bytes()),
            encode(claims.to_string().as_bytes())
        );
        let signature = signer
            .sign(signed.as_bytes())
            .map_err(|_| TokenError::lasting("the service account's key cannot sign"))?;
        Token::bearer(
            &format!("{signed}.{}", encode(&signature)),
            Some(expires_at),
        )
    }
}
