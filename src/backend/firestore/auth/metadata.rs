//! The metadata server of Google Cloud tells what runs there who it is.

use std::env;

use hyper::Request;
use tokio::time::Instant;

use super::SCOPE;
use super::http::{self, Answer};
use super::token::{Token, TokenError};

const USUAL_HOST: &str = "metadata.google.internal";
const FLAVOR: &str = "metadata-flavor";

pub(super) struct MetadataServer {
    host: String,
}

impl MetadataServer {
    pub(super) fn from_env() -> Self {
        let host = env::var("GCE_METADATA_HOST");
        Self::at(host.unwrap_or_else(|_| USUAL_HOST.to_owned()))
    }

    fn at(host: String) -> Self {
        Self { host }
    }

    pub(super) async fn token(&self) -> Result<Token, TokenError> {
        let path = format!("instance/service-accounts/default/token?scopes={SCOPE}");
        let asked_at = Instant::now();
        Token::from_answer(&self.ask(&path).await?.body, asked_at)
    }

    pub(super) async fn project_id(&self) -> Option<String> {
        let answer = self.ask("project/project-id").await.ok()?;
        // Somebody else's page, as of a network that wants a login first, is none.
        answer.headers.get(FLAVOR).filter(|it| *it == "Google")?;
        let project_id = str::from_utf8(&answer.body).ok()?;
        Some(project_id.trim().to_owned())
    }

    async fn ask(&self, path: &str) -> Result<Answer, TokenError> {
        let url = format!("http://{}/computeMetadata/v1/{path}", self.host);
        let request = Request::get(url)
            .header(FLAVOR, "Google")
            .body(String::new())
            .map_err(|_| TokenError::lasting("GCE_METADATA_HOST is malformed"))?;
        http::send(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::firestore::tests::TokenServer;

    #[tokio::test]
    async fn it_tells_a_token_and_the_project() {
        let server = TokenServer::start(|asked| {
            assert_eq!(asked.headers[FLAVOR], "Google");
            if asked.path.ends_with("/project-id") {
                return (200, "the-project\n".to_owned());
            }
            let path = "/computeMetadata/v1/instance/service-accounts/default/token";
            assert_eq!(asked.path, format!("{path}?scopes={SCOPE}"));
            (200, TokenServer::token("minted"))
        })
        .await;
        let metadata = MetadataServer::at(server.host.clone());
        let token = metadata.token().await.unwrap();
        assert_eq!(token.authorization, "Bearer minted");
        assert_eq!(metadata.project_id().await.unwrap(), "the-project");
    }
}
