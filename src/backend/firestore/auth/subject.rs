//! Where an external account's own token comes from.

use std::collections::HashMap;
use std::env;
use std::time::Duration;

use hyper::Request;
use serde::Deserialize;
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use super::aws::Aws;
use super::credentials::read_file;
use super::http;
use super::token::TokenError;
use crate::lock::time::system_now_ms;

const ALLOW_EXECUTABLES: &str = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES";
const USUAL_EXECUTABLE_LIMIT_MS: u64 = 30_000;

/// The most specific first: which it is depends on the fields alone.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Subject {
    Aws(Aws),
    Executable {
        executable: Executable,
    },
    Url {
        url: String,
        #[serde(default)]
        headers: HashMap<String, String>,
        #[serde(default)]
        format: Format,
    },
    File {
        file: String,
        #[serde(default)]
        format: Format,
    },
}

impl Subject {
    pub(super) async fn token(&self, audience: &str) -> Result<String, TokenError> {
        match self {
            Self::Aws(aws) => aws.token(audience).await,
            Self::Executable { executable } => executable.token().await,
            Self::Url {
                url,
                headers,
                format,
            } => {
                let mut request = Request::get(url);
                for (name, value) in headers {
                    request = request.header(name, value);
                }
                let request = request.body(String::new()).map_err(|_| {
                    TokenError::lasting("the URL or a header of the credential source is malformed")
                })?;
                format.read(&http::send(request).await?.body)
            }
            Self::File { file, format } => {
                let content = read_file(file.into()).await.map_err(|_| {
                    TokenError::lasting("the file of the credential source cannot be read")
                })?;
                format.read(&content)
            }
        }
    }
}

#[derive(Deserialize, Default)]
pub(super) struct Format {
    #[serde(rename = "type")]
    kind: Option<String>,
    subject_token_field_name: Option<String>,
}

impl Format {
    fn read(&self, content: &[u8]) -> Result<String, TokenError> {
        let none = || TokenError::lasting("the credential source has no token");
        if self.kind.as_deref() != Some("json") {
            let text = str::from_utf8(content).map_err(|_| none())?;
            return Ok(text.to_owned());
        }
        let content: Value = serde_json::from_slice(content).map_err(|_| none())?;
        let field = self.subject_token_field_name.as_deref().unwrap_or_default();
        let token = content.get(field).and_then(Value::as_str);
        Ok(token.ok_or_else(none)?.to_owned())
    }
}

#[derive(Deserialize)]
pub(super) struct Executable {
    command: String,
    timeout_millis: Option<u32>,
    output_file: Option<String>,
}

impl Executable {
    /// What it wrote the last time is used as long as it is valid.
    async fn token(&self) -> Result<String, TokenError> {
        if let Some(file) = &self.output_file
            && let Ok(content) = read_file(file.into()).await
            && let Ok(token) = ExecutableAnswer::read(&content)
        {
            return Ok(token);
        }
        if env::var(ALLOW_EXECUTABLES).as_deref() != Ok("1") {
            return Err(TokenError::lasting(format!(
                "the executable of the credential source is only run when {ALLOW_EXECUTABLES} is 1"
            )));
        }
        self.run().await
    }

    async fn run(&self) -> Result<String, TokenError> {
        let mut words = self.command.split_whitespace();
        let program = words.next().unwrap_or_default();
        let running = Command::new(program)
            .args(words)
            .kill_on_drop(true)
            .output();
        let limit = self
            .timeout_millis
            .map_or(USUAL_EXECUTABLE_LIMIT_MS, u64::from);
        let failed = || TokenError::passing("the executable of the credential source failed");
        let output = timeout(Duration::from_millis(limit), running)
            .await
            .map_err(|_| failed())?
            .map_err(|_| failed())?;
        if !output.status.success() {
            return Err(failed());
        }
        ExecutableAnswer::read(&output.stdout)
    }
}

#[derive(Deserialize)]
struct ExecutableAnswer {
    success: bool,
    token_type: Option<String>,
    /// In seconds since 1970.
    expiration_time: Option<u64>,
    id_token: Option<String>,
    saml_response: Option<String>,
}

impl ExecutableAnswer {
    fn read(output: &[u8]) -> Result<String, TokenError> {
        let answer: Self = serde_json::from_slice(output).map_err(|_| {
            TokenError::lasting("the executable of the credential source told something else")
        })?;
        if !answer.success {
            return Err(TokenError::passing(
                "the executable of the credential source says that it failed",
            ));
        }
        let expired = |at| at < system_now_ms() / 1_000;
        if answer.expiration_time.is_some_and(expired) {
            return Err(TokenError::passing(
                "the token of the credential source's executable is expired",
            ));
        }
        let token = match answer.token_type.as_deref() {
            Some("urn:ietf:params:oauth:token-type:saml2") => answer.saml_response,
            Some(
                "urn:ietf:params:oauth:token-type:jwt"
                | "urn:ietf:params:oauth:token-type:access_token"
                | "urn:ietf:params:oauth:token-type:id_token",
            ) => answer.id_token,
            _ => None,
        };
        token.filter(|token| !token.is_empty()).ok_or_else(|| {
            TokenError::lasting("the executable of the credential source gave no token")
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(token_type: &str, expiration_time: u64) -> String {
        json!({
            "version": 1,
            "success": true,
            "token_type": format!("urn:ietf:params:oauth:token-type:{token_type}"),
            "id_token": "id",
            "saml_response": "saml",
            "expiration_time": expiration_time,
        })
        .to_string()
    }

    fn executable(command: String) -> Executable {
        Executable {
            command,
            timeout_millis: Some(10_000),
            output_file: None,
        }
    }

    #[test]
    fn what_an_executable_tells_is_a_token_of_its_type_until_it_expires() {
        let read = |answer: String| ExecutableAnswer::read(answer.as_bytes());
        assert_eq!(read(answer("jwt", u32::MAX.into())).unwrap(), "id");
        assert_eq!(read(answer("saml2", u32::MAX.into())).unwrap(), "saml");
        assert!(read(answer("strange", u32::MAX.into())).is_err());
        assert!(read(answer("jwt", 1)).unwrap_err().transient);
        assert!(read(json!({"success": false}).to_string()).is_err());
    }

    #[tokio::test]
    async fn an_executable_must_be_allowed_to_run() {
        let error = executable("echo".to_owned()).token().await.unwrap_err();
        assert!(!error.transient);
        assert!(error.to_string().contains(ALLOW_EXECUTABLES));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn an_executable_is_run_with_its_words_and_not_for_ever() {
        let told = answer("jwt", u32::MAX.into());
        let token = executable(format!("/bin/echo {told}")).run().await;
        assert_eq!(token.unwrap(), "id");
        assert!(executable("/bin/false".to_owned()).run().await.is_err());
        let mut endless = executable("/bin/sleep 1000".to_owned());
        endless.timeout_millis = Some(50);
        assert!(endless.run().await.unwrap_err().transient);
    }
}
