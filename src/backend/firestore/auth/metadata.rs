//! The metadata server of Google Cloud tells what runs there who it is.

use std::env;

use hyper::Request;
use tokio::time::Instant;

use super::SCOPE;
use super::http::{self, Answer};
use super::token::{Token, TokenError};

const USUAL_HOST: &str = "metadata.google.internal";
const FLAVOR: &str = "metadata-flavor";

pub(super) async fn token() -> Result<Token, TokenError> {
    let path = format!("instance/service-accounts/default/token?scopes={SCOPE}");
    let asked_at = Instant::now();
    Token::from_answer(&ask(&path).await?.body, asked_at)
}

pub(super) async fn project_id() -> Option<String> {
    let answer = ask("project/project-id").await.ok()?;
    // Somebody else's page, as of a network that wants a login first, is none.
    answer.headers.get(FLAVOR).filter(|it| *it == "Google")?;
    let project_id = str::from_utf8(&answer.body).ok()?;
    Some(project_id.trim().to_owned())
}

async fn ask(path: &str) -> Result<Answer, TokenError> {
    let host = env::var("GCE_METADATA_HOST");
    let host = host.as_deref().unwrap_or(USUAL_HOST);
    let request = Request::get(format!("http://{host}/computeMetadata/v1/{path}"))
        .header(FLAVOR, "Google")
        .body(String::new())
        .map_err(|_| TokenError::lasting("GCE_METADATA_HOST is malformed"))?;
    http::send(request).await
}
