use axum::Router;
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::Server;
use crate::backend::firestore::FirestoreConfig;
use crate::backend::firestore::auth::{Tokens, credentials};
use crate::backend::tls;
use crate::error::{ErrorCode, Result};

pub fn service_account_key() -> Value {
    json!({
        "type": "service_account",
        "project_id": "test",
        "private_key_id": "key-1",
        "private_key": include_str!("test_key.pem"),
        "client_email": "locks@test.iam.gserviceaccount.com",
    })
}

async fn authorization(config: FirestoreConfig) -> Result<String> {
    tls::install_provider();
    let tokens = Tokens::new(credentials(&config).await?);
    let headers = tokens.headers().await.unwrap();
    Ok(headers["authorization"].to_str().unwrap().to_owned())
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
async fn a_key_file_and_a_key_without_its_id_will_do() {
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
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let token_uri = format!("http://{}/token", listener.local_addr().unwrap());
    let token = json!({"access_token": "minted", "token_type": "Bearer", "expires_in": 3600});
    let reply = ([("content-type", "application/json")], token.to_string());
    let endpoint = Router::new().route("/token", post(|| async { reply }));
    tokio::spawn(hidane::serve(
        vec![listener],
        Router::new(),
        endpoint,
        std::future::pending(),
    ));
    let authorization = authorization(FirestoreConfig {
        credentials: Some(json!({
            "type": "authorized_user",
            "client_id": "id",
            "client_secret": "secret",
            "refresh_token": "refresh",
            "token_uri": token_uri,
        })),
        ..FirestoreConfig::default()
    })
    .await;
    assert_eq!(authorization.unwrap(), "Bearer minted");
}

#[tokio::test]
async fn unusable_credentials_are_told_without_quoting_them() {
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
