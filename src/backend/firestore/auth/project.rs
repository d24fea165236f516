//! The project, when the options do not name one.

use std::env;

use serde_json::Value;

use super::credentials::application_default;
use super::metadata::MetadataServer;

const VARIABLES: [&str; 4] = [
    "GCP_PROJECT",
    "PROJECT_ID",
    "GCP_PROJECT_ID",
    "GOOGLE_CLOUD_PROJECT",
];

pub(in crate::backend::firestore) async fn project_id() -> Option<String> {
    if let Some(project_id) = VARIABLES.iter().find_map(|name| env::var(name).ok()) {
        return Some(project_id);
    }
    let content = application_default().await.ok().flatten();
    match content.as_ref().and_then(project_of) {
        Some(project_id) => Some(project_id.to_owned()),
        None => MetadataServer::from_env().project_id().await,
    }
}

fn project_of(credentials: &Value) -> Option<&str> {
    let named = |field| credentials.get(field)?.as_str();
    named("project_id")
        .or_else(|| named("quota_project_id"))
        .or_else(|| project_of(credentials.get("source_credentials")?))
}
