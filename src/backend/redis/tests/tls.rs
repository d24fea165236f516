//! TLS on one side only.

use std::time::{Duration, Instant};

use super::faults::{QUICK, peer};
use super::server::{Server, backend, request};
use crate::backend::Backend;
use crate::error::{Error, ErrorCode};

/// Returns the error of a connection that speaks TLS to this port, and how long it took.
async fn tls_failure(port: u16, more: &str) -> (Error, Duration) {
    let tls = r#","tls":{"rejectUnauthorized":false}"#;
    let backend = backend(port, &format!("{tls}{more}")).unwrap();
    let started = Instant::now();
    let error = backend.acquire(&request("k", 1000)).await.unwrap_err();
    (error, started.elapsed())
}

#[tokio::test]
async fn tls_to_a_plain_port_is_reported_before_the_time_out() {
    const LONG: &str = r#","connectTimeoutMs":60000,"operationTimeoutMs":60000"#;
    let server = Server::start(&[]).await;
    // This server refuses even PING.
    let guarded = Server::start(&["--requirepass", "hunter2"]).await;
    let talkative = peer(true, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    for port in [server.port, guarded.port, talkative] {
        let (error, took) = tls_failure(port, LONG).await;
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{error:?}");
        assert!(error.message.contains("is not a TLS port"), "{error}");
        assert!(error.message.contains(&format!("127.0.0.1:{port}")));
        assert!(!error.outcome_unknown);
        assert!(took < Duration::from_secs(30), "{took:?}");
    }
}

#[tokio::test]
async fn a_tls_port_that_is_silent_or_hangs_up() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let silent = listener.local_addr().unwrap().port();
    let limits = r#","connectTimeoutMs":60000,"operationTimeoutMs":300"#;
    let (error, _) = tls_failure(silent, limits).await;
    assert_eq!(error.code, ErrorCode::NetworkTimeout);
    assert!(error.message.contains("does not answer the TLS handshake"));
    assert!(error.message.contains("operationTimeoutMs"), "{error}");

    let (error, took) = tls_failure(peer(true, b"").await, QUICK).await;
    assert_eq!(error.code, ErrorCode::ServiceUnavailable, "{error:?}");
    assert!(error.message.contains("during the TLS handshake"));
    assert!(took >= Duration::from_millis(400), "it is tried again");
}

/// Servers that speak TLS answer other data with an alert, or hang up.
#[tokio::test]
async fn a_tls_port_is_recognised_at_once() {
    const ALERT: &[u8] = b"\x15\x03\x03\x00\x02\x02\x46";
    let backend = backend(peer(true, ALERT).await, r#","connectTimeoutMs":60000"#).unwrap();
    let started = Instant::now();
    let error = backend.acquire(&request("k", 1000)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArgument, "{error:?}");
    assert!(error.message.contains("this is a TLS port"), "{error}");
    assert!(error.message.contains("rediss:"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(30));
}
