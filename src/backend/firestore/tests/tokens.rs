use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::timeout;

use super::{TokenServer, sleep_ms};
use crate::backend::firestore::FirestoreConfig;
use crate::backend::firestore::auth::{Tokens, credentials};

async fn tokens(server: &TokenServer) -> Tokens {
    let config = FirestoreConfig {
        credentials: Some(json!({
            "type": "authorized_user",
            "client_id": "id",
            "client_secret": "SECRET",
            "refresh_token": "SECRET",
            "token_uri": server.url("/token"),
        })),
        ..FirestoreConfig::default()
    };
    Tokens::new(credentials(&config).await.unwrap())
}

async fn token(tokens: &Tokens) -> String {
    let headers = tokens.headers().await.unwrap();
    headers["authorization"].to_str().unwrap().to_owned()
}

/// Tokens that are called 1, 2, 3, …
async fn counting(seconds: u64) -> TokenServer {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    TokenServer::start(move |_| {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        (200, TokenServer::token_for(&count.to_string(), seconds))
    })
    .await
}

#[tokio::test]
async fn one_token_is_enough_for_all_calls() {
    let server = counting(3_600).await;
    let tokens = tokens(&server).await;
    let all = join_all((0..10).map(|_| token(&tokens))).await;
    assert!(all.iter().all(|other| *other == all[0]));
    assert_eq!(token(&tokens).await, all[0]);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_token_is_replaced_before_it_expires_and_nobody_waits_for_it() {
    let server = counting(100).await;
    let tokens = tokens(&server).await;
    let first = token(&tokens).await;
    // The first was had but now: a pause between two tries.
    assert_eq!(token(&tokens).await, first);
    assert_eq!(server.asked().len(), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    assert_eq!(token(&tokens).await, first);
    let replaced = async {
        while token(&tokens).await == first {
            sleep_ms(5).await;
        }
    };
    timeout(Duration::from_secs(20), replaced).await.unwrap();
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn an_expired_token_is_not_used() {
    let server = counting(0).await;
    let tokens = tokens(&server).await;
    assert_ne!(token(&tokens).await, token(&tokens).await);
}

#[tokio::test]
async fn what_passes_is_tried_again_and_what_lasts_is_told_without_secrets() {
    let failures = AtomicU64::new(2);
    let failures = std::sync::Arc::new(failures);
    let server = TokenServer::start(move |_| {
        let left = failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        });
        match left {
            Ok(_) => (503, String::new()),
            Err(_) => (200, TokenServer::token("late")),
        }
    })
    .await;
    assert_eq!(token(&tokens(&server).await).await, "Bearer late");

    let server = TokenServer::start(|asked| (400, asked.body.clone())).await;
    let error = tokens(&server).await.headers().await.unwrap_err();
    assert!(!error.transient);
    assert_eq!(error.to_string(), "127.0.0.1 answered 400 Bad Request");
    assert_eq!(server.asked().len(), 1);
}
