use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{Server, TokenServer};
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
    assert_eq!(
        server.asked()[0].body,
        "grant_type=refresh_token&client_id=id&client_secret=secret&refresh_token=refresh"
    );
}

#[tokio::test]
async fn a_service_account_is_impersonated_and_pays_for_another_project() {
    let server = TokenServer::start(|_| (200, json!({"accessToken": "its"}).to_string())).await;
    let tokens = Tokens::new(
        credentials(&FirestoreConfig {
            credentials: Some(json!({
                "type": "impersonated_service_account",
                "service_account_impersonation_url": server.url("/generate"),
                "source_credentials": service_account_key(),
                "delegates": ["between"],
                "quota_project_id": "payer",
            })),
            ..FirestoreConfig::default()
        })
        .await
        .unwrap(),
    );
    let headers = tokens.headers().await.unwrap();
    assert_eq!(headers["authorization"], "Bearer its");
    assert_eq!(headers["x-goog-user-project"], "payer");
    let asked = &server.asked()[0];
    let source = asked.headers["authorization"].to_str().unwrap();
    assert_eq!(jwt_part(source, 0)["alg"], "RS256");
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    assert_eq!(body["delegates"], json!(["between"]));
    assert_eq!(body["lifetime"], "3600s");
}

#[tokio::test]
async fn a_workload_identity_is_exchanged_and_impersonates() {
    let server = TokenServer::start(|asked| match asked.path.as_str() {
        "/subject" => (200, json!({"here": "subject"}).to_string()),
        "/exchange" => (200, TokenServer::token("federated")),
        _ => (200, json!({"accessToken": "its"}).to_string()),
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
    let with = |account: Value| {
        authorization(FirestoreConfig {
            credentials: Some(account),
            ..FirestoreConfig::default()
        })
    };
    assert_eq!(with(account.clone()).await.unwrap(), "Bearer federated");
    let mut impersonating = account.clone();
    let url = server.url("/generate");
    impersonating["service_account_impersonation_url"] = json!(url);
    let file = std::env::temp_dir().join(format!("syncguard-subject-{}", std::process::id()));
    std::fs::write(&file, "in a file").unwrap();
    impersonating["credential_source"] = json!({"file": file.to_str().unwrap()});
    let impersonated = with(impersonating).await;
    std::fs::remove_file(&file).unwrap();
    assert_eq!(impersonated.unwrap(), "Bearer its");

    let asked = server.asked();
    let paths: Vec<_> = asked.iter().map(|asked| asked.path.as_str()).collect();
    assert_eq!(paths, ["/subject", "/exchange", "/exchange", "/generate"]);
    assert_eq!(asked[0].headers["x-test"], "yes");
    assert_eq!(asked[1].headers["authorization"], "Basic aWQ6c2VjcmV0");
    assert!(asked[1].body.contains("subject_token=subject&"));
    assert!(asked[1].body.ends_with("auth%2Fcloud-platform"));
    assert!(asked[2].body.contains("subject_token=in+a+file&"));
    assert!(asked[2].body.ends_with("auth%2Fiam"));
    assert_eq!(asked[3].headers["authorization"], "Bearer federated");
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
