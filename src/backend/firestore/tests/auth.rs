//! Every kind of credentials that Google's library makes tokens from, and what we add to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firestore::gcloud_sdk::google_cloud_auth::credentials::Credentials;
use firestore::gcloud_sdk::{GoogleAuthHeaders, HeaderMap};
use serde_json::{Value, json};

use super::{Server, TokenServer};
use crate::backend::firestore::FirestoreConfig;
use crate::backend::firestore::credentials::Source;
use crate::backend::firestore::error::no_token;
use crate::backend::firestore::metadata::MetadataServer;
use crate::backend::tls;
use crate::error::{Error, ErrorCode, Result};

const GENERATE: &str = "/v1/projects/-/serviceAccounts/its@test.iam:generateAccessToken";

pub fn service_account_key() -> Value {
    json!({
        "type": "service_account",
        "project_id": "test",
        "private_key_id": "key-1",
        "private_key": include_str!("test_key.pem"),
        "client_email": "locks@test.iam.gserviceaccount.com",
    })
}

fn with(content: Value) -> FirestoreConfig {
    FirestoreConfig {
        credentials: Some(content),
        ..FirestoreConfig::default()
    }
}

async fn credentials(config: &FirestoreConfig) -> Result<Credentials> {
    Source::find(config)?.credentials().await
}

/// Returns the headers of a call, or why there are none.
async fn headers(config: FirestoreConfig) -> Result<Arc<HeaderMap>> {
    tls::install_provider();
    headers_of(credentials(&config).await?).await
}

async fn headers_of(credentials: Credentials) -> Result<Arc<HeaderMap>> {
    let headers = GoogleAuthHeaders::from(credentials).headers().await;
    headers.map_err(|error| no_token(&error, "Firestore (here)"))
}

async fn authorization(config: FirestoreConfig) -> Result<String> {
    Ok(headers(config).await?["authorization"]
        .to_str()
        .unwrap()
        .to_owned())
}

fn jwt_part(authorization: &str, part: usize) -> Value {
    let token = authorization.strip_prefix("Bearer ").unwrap();
    let part = token.split('.').nth(part).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[tokio::test]
async fn a_service_account_key_signs_tokens() {
    let authorization = authorization(FirestoreConfig {
        credentials: Some(service_account_key()),
        ..FirestoreConfig::default()
    })
    .await
    .unwrap();
    assert_eq!(jwt_part(&authorization, 0)["alg"], "RS256");
    assert_eq!(jwt_part(&authorization, 0)["kid"], "key-1");
    let claims = jwt_part(&authorization, 1);
    assert_eq!(claims["iss"], "locks@test.iam.gserviceaccount.com");
    assert_eq!(
        claims["scope"],
        "https://www.googleapis.com/auth/cloud-platform"
    );
}

#[tokio::test]
async fn a_key_file_needs_only_the_email_address_and_the_key() {
    let mut key = service_account_key();
    key.as_object_mut()
        .unwrap()
        .retain(|field, _| field == "client_email" || field == "private_key");
    let file = std::env::temp_dir().join(format!("syncguard-key-{}.json", std::process::id()));
    std::fs::write(&file, key.to_string()).unwrap();
    let authorization = authorization(FirestoreConfig {
        key_filename: Some(file.to_str().unwrap().to_owned()),
        ..FirestoreConfig::default()
    })
    .await;
    std::fs::remove_file(&file).unwrap();
    let claims = jwt_part(&authorization.unwrap(), 1);
    assert_eq!(claims["iss"], "locks@test.iam.gserviceaccount.com");
}

#[tokio::test]
async fn a_users_refresh_token_is_exchanged() {
    let server = TokenServer::start(|_| (200, TokenServer::token("minted"))).await;
    let authorization = authorization(FirestoreConfig {
        credentials: Some(json!({
            "type": "authorized_user",
            "client_id": "id",
            "client_secret": "secret",
            "refresh_token": "refresh",
            "token_uri": server.url("/token"),
        })),
        ..FirestoreConfig::default()
    })
    .await;
    assert_eq!(authorization.unwrap(), "Bearer minted");
    let asked: Value = serde_json::from_str(&server.asked()[0].body).unwrap();
    assert_eq!(asked["grant_type"], "refresh_token");
    assert_eq!(asked["refresh_token"], "refresh");
}

#[tokio::test]
async fn a_service_account_is_impersonated_and_pays_for_another_project() {
    let server = TokenServer::start(|_| (200, impersonated())).await;
    let headers = headers(with(json!({
        "type": "impersonated_service_account",
        "service_account_impersonation_url": server.url(GENERATE),
        "source_credentials": service_account_key(),
        "delegates": ["between"],
        "quota_project_id": "payer",
    })))
    .await
    .unwrap();
    assert_eq!(headers["authorization"], "Bearer its");
    assert_eq!(headers["x-goog-user-project"], "payer");
    let asked = &server.asked()[0];
    let source = asked.headers["authorization"].to_str().unwrap();
    assert_eq!(jwt_part(source, 0)["alg"], "RS256");
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    assert_eq!(body["delegates"], json!(["between"]));
}

fn impersonated() -> String {
    json!({"accessToken": "its", "expireTime": "2100-01-01T00:00:00Z"}).to_string()
}

#[tokio::test]
async fn a_workload_identity_is_exchanged_and_impersonates() {
    let server = TokenServer::start(|asked| match asked.path.as_str() {
        "/subject" => (200, json!({"here": "subject"}).to_string()),
        "/exchange" => (200, TokenServer::token("federated")),
        _ => (200, impersonated()),
    })
    .await;
    let account = json!({
        "type": "external_account",
        "audience": "//iam.googleapis.com/the/pool",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": server.url("/exchange"),
        "client_id": "id",
        "client_secret": "secret",
        "credential_source": {
            "url": server.url("/subject"),
            "headers": {"x-test": "yes"},
            "format": {"type": "json", "subject_token_field_name": "here"},
        },
    });
    let federated = authorization(with(account.clone())).await;
    assert_eq!(federated.unwrap(), "Bearer federated");
    let mut impersonating = account.clone();
    let url = server.url(GENERATE);
    impersonating["service_account_impersonation_url"] = json!(url);
    let file = std::env::temp_dir().join(format!("syncguard-subject-{}", std::process::id()));
    std::fs::write(&file, "in a file").unwrap();
    impersonating["credential_source"] = json!({"file": file.to_str().unwrap()});
    let authorized = authorization(with(impersonating)).await;
    std::fs::remove_file(&file).unwrap();
    assert_eq!(authorized.unwrap(), "Bearer its");

    let asked = server.asked();
    let paths: Vec<_> = asked.iter().map(|asked| asked.path.as_str()).collect();
    assert_eq!(paths, ["/subject", "/exchange", "/exchange", GENERATE]);
    assert_eq!(asked[0].headers["x-test"], "yes");
    for (asked, subject, scope) in [
        (&asked[1], "=subject", "auth%2Fcloud-platform"),
        (&asked[2], "=in+a+file", "auth%2F"),
    ] {
        assert!(asked.headers.contains_key("authorization"));
        assert!(asked.body.contains(subject), "{}", asked.body);
        assert!(asked.body.contains(scope), "{}", asked.body);
    }
    assert_eq!(asked[3].headers["authorization"], "Bearer federated");
}

#[tokio::test]
async fn errors_about_unusable_credentials_do_not_quote_them() {
    for (content, code) in [
        (
            json!({"type": "service_account", "private_key": "SECRET"}),
            ErrorCode::AuthFailed,
        ),
        (
            json!({"type": "authorized_user", "client_secret": "SECRET"}),
            ErrorCode::AuthFailed,
        ),
        (json!({"type": "SECRET"}), ErrorCode::InvalidArgument),
        (json!("SECRET"), ErrorCode::AuthFailed),
    ] {
        let config = FirestoreConfig {
            credentials: Some(content),
            ..FirestoreConfig::default()
        };
        let error = credentials(&config).await.err().unwrap();
        assert_eq!(error.code, code);
        assert!(!format!("{error:?}").contains("SECRET"), "{error:?}");
    }
    let config = FirestoreConfig {
        key_filename: Some("/no/such/file".to_owned()),
        ..FirestoreConfig::default()
    };
    let error = credentials(&config).await.err().unwrap();
    assert_eq!(error.code, ErrorCode::InvalidArgument);
    for part in ["/no/such/file", "keyFilename", "No such file"] {
        assert!(error.message.contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_file_names_the_project() {
    for (content, project) in [
        (service_account_key(), "test"),
        (json!({"quota_project_id": "payer"}), "payer"),
        (json!({"source_credentials": service_account_key()}), "test"),
    ] {
        let source = Source::find(&with(content)).unwrap();
        assert_eq!(source.project_id().await.unwrap(), project);
    }
}

#[tokio::test]
async fn an_emulator_gets_the_owners_token() {
    let server = Server::start().await;
    let backend = server.backend();
    super::acquire(&backend, "a", 1).await.unwrap();
    let calls = server.faults.take_calls();
    assert!(!calls.is_empty());
    for call in calls {
        assert_eq!(call.authorization.as_deref(), Some("Bearer owner"));
    }
}

fn user_of(token_uri: &str) -> FirestoreConfig {
    with(json!({
        "type": "authorized_user",
        "client_id": "id",
        "client_secret": "SECRET",
        "refresh_token": "SECRET",
        "token_uri": token_uri,
    }))
}

fn says(error: &Error, code: ErrorCode, parts: &[&str]) {
    assert_eq!(error.code, code, "{error:?}");
    for part in parts {
        assert!(error.message.contains(part), "{part}: {}", error.message);
    }
    assert!(!format!("{error:?}").contains("SECRET"), "{error:?}");
}

#[tokio::test]
async fn the_error_of_a_token_server_that_returns_no_token() {
    let away = headers(user_of("http://user:SECRET@127.0.0.1:1/token")).await;
    let parts = ["No access token for Firestore (here)", "127.0.0.1:1"];
    let error = away.unwrap_err();
    says(&error, ErrorCode::ServiceUnavailable, &parts);
    says(
        &error,
        ErrorCode::ServiceUnavailable,
        &["connection refused"],
    );
    let nowhere = headers(user_of("http://syncguard.invalid/token")).await;
    let parts = ["syncguard.invalid", "host not found"];
    says(&nowhere.unwrap_err(), ErrorCode::ServiceUnavailable, &parts);
    let server = TokenServer::start(|_| (401, "SECRET".to_owned())).await;
    let refused = headers(user_of(&server.url("/token"))).await;
    let parts = [server.host.as_str(), "401 Unauthorized", "keyFilename"];
    says(&refused.unwrap_err(), ErrorCode::AuthFailed, &parts);
    let server = TokenServer::start(|_| (200, "SECRET".to_owned())).await;
    let unreadable = headers(user_of(&server.url("/token"))).await;
    says(&unreadable.unwrap_err(), ErrorCode::AuthFailed, &[]);
}

/// Google's library panics in this case.
#[tokio::test]
async fn a_token_that_expired_in_the_past_is_an_error() {
    let ended = json!({"accessToken": "SECRET", "expireTime": "2001-01-01T00:00:00Z"}).to_string();
    let server = TokenServer::start(move |_| (200, ended.clone())).await;
    let config = with(json!({
        "type": "impersonated_service_account",
        "service_account_impersonation_url": server.url(GENERATE),
        "source_credentials": service_account_key(),
    }));
    says(
        &headers(config).await.unwrap_err(),
        ErrorCode::AuthFailed,
        &["Google's library got no access token"],
    );
}

#[tokio::test]
async fn the_metadata_server_returns_a_token_and_the_project() {
    tls::install_provider();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let server = TokenServer::start(|asked| {
        assert_eq!(asked.headers["metadata-flavor"], "Google");
        if asked.path.ends_with("/project-id") {
            return (200, "the-project\n".to_owned());
        }
        let path = "/computeMetadata/v1/instance/service-accounts/default/token?scopes=";
        let scope = "https://www.googleapis.com/auth/cloud-platform";
        assert_eq!(asked.path, format!("{path}{scope}"));
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // The first token is expired at once, the second is valid for an hour.
        let life = if count == 0 { 0 } else { 3_600 };
        (200, TokenServer::token_for(&count.to_string(), life))
    })
    .await;
    let metadata = MetadataServer::at(server.host.clone()).unwrap();
    assert_eq!(metadata.project_id().await.unwrap(), "the-project");
    let auth = GoogleAuthHeaders::from(Credentials::from(metadata));
    for expected in ["Bearer 0", "Bearer 1", "Bearer 1"] {
        assert_eq!(auth.headers().await.unwrap()["authorization"], expected);
    }
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn something_else_than_a_metadata_server_is_an_error() {
    tls::install_provider();
    let server = TokenServer::start(|_| (200, "SECRET".to_owned())).await;
    let metadata = MetadataServer::at(server.host.clone()).unwrap();
    let error = headers_of(Credentials::from(metadata)).await.unwrap_err();
    let parts = [
        server.host.as_str(),
        "is not a metadata server",
        "Google Cloud",
    ];
    says(&error, ErrorCode::AuthFailed, &parts);
    let away = MetadataServer::at("127.0.0.1:1".to_owned()).unwrap();
    let error = headers_of(Credentials::from(away)).await.unwrap_err();
    let parts = ["the metadata server 127.0.0.1:1", "connection refused"];
    says(&error, ErrorCode::ServiceUnavailable, &parts);
}
