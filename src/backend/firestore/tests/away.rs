//! A server that cannot be reached, for a moment or for longer: how long operations keep trying, and
//! which reason the error gives.

use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::firestore_faults::Fault;
use super::{Server, acquire, key, request, sleep_ms};
use crate::backend::firestore::{FirestoreBackend, FirestoreConfig};
use crate::backend::{Backend, ReleaseOutcome, Warnings};
use crate::error::{Error, ErrorCode};

/// A limit that no test reaches.
const PATIENT_MS: u64 = 60_000;

fn open(config: FirestoreConfig) -> FirestoreBackend {
    FirestoreBackend::open(config, Warnings::new(|_| {})).unwrap()
}

fn emulator(address: &str, connect_timeout_ms: u64) -> FirestoreConfig {
    FirestoreConfig {
        project_id: Some("test".to_owned()),
        emulator_host: Some(address.to_owned()),
        connect_timeout_ms,
        ..FirestoreConfig::default()
    }
}

/// Connects as to the real service: with TLS and credentials.
fn service(address: &str, credentials: Value, connect_timeout_ms: u64) -> FirestoreConfig {
    FirestoreConfig {
        emulator_host: None,
        host: Some(address.to_owned()),
        credentials: Some(credentials),
        ..emulator(address, connect_timeout_ms)
    }
}

async fn failing(backend: &FirestoreBackend) -> Error {
    let error = backend.acquire(&request("a", 30_000)).await.unwrap_err();
    assert!(!error.outcome_unknown);
    error
}

/// Returns the backend's obstacle once it contains `what`. The operation must not fail before.
async fn obstacle_that_says(
    what: &str,
    backend: &FirestoreBackend,
    mut failing: Pin<&mut impl Future<Output = Error>>,
) -> Error {
    loop {
        let early = tokio::time::timeout(Duration::from_millis(5), failing.as_mut());
        early.await.unwrap_err();
        let obstacle = backend.obstacle().unwrap();
        if obstacle.message.contains(what) {
            return obstacle;
        }
    }
}

fn says(error: &Error, code: ErrorCode, parts: &[&str]) {
    assert_eq!(error.code, code, "{error:?}");
    for part in parts {
        assert!(error.message.contains(part), "{part}: {}", error.message);
    }
}

async fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Answers every connection with these bytes, and closes it.
async fn answering(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1 << 12]).await;
            let _ = stream.write_all(bytes).await;
        }
    });
    address
}

#[tokio::test]
async fn a_server_that_stays_away_is_given_up_in_time_with_the_reason() {
    let address = free_address().await;
    let backend = open(emulator(&address, 300));
    let place = format!("Firestore ({address}, project test)");
    let started = Instant::now();
    let error = failing(&backend).await;
    assert!(started.elapsed() >= Duration::from_millis(290));
    let reason = "connection refused";
    says(
        &error,
        ErrorCode::ServiceUnavailable,
        &[&place, reason, "Gave up after", "(connectTimeoutMs)"],
    );
    assert!(backend.obstacle().is_none());

    let server = Server::on(TcpListener::bind(&address).await.unwrap());
    assert!(acquire(&backend, "a", 1000).await.unwrap().is_some());
    server.stop().await;
    // The connection is closed as well.
    let error = failing(&backend).await;
    says(&error, ErrorCode::ServiceUnavailable, &[&place, reason]);
}

#[tokio::test]
async fn the_first_operation_keeps_trying_until_the_server_is_up() {
    let address = free_address().await;
    let backend = open(emulator(&address, PATIENT_MS));
    let acquiring = acquire(&backend, "a", 1000);
    let starting = async {
        // Until the first attempts have failed.
        while !backend
            .obstacle()
            .is_some_and(|error| error.message.contains("connection refused"))
        {
            sleep_ms(5).await;
        }
        let obstacle = backend.obstacle().unwrap();
        says(
            &obstacle,
            ErrorCode::ServiceUnavailable,
            &[&address, "Trying for"],
        );
        Server::on(TcpListener::bind(&address).await.unwrap())
    };
    let (acquired, _server) = tokio::join!(acquiring, starting);
    assert!(acquired.unwrap().is_some());
    assert!(backend.obstacle().is_none());
}

#[tokio::test]
async fn operations_outlast_a_restart() {
    let server = Server::start().await;
    let backend = server.backend_with(|config| config.connect_timeout_ms = PATIENT_MS);
    let held = acquire(&backend, "a", 30_000).await.unwrap().unwrap();
    let address = server.address.clone();
    server.stop().await;
    let other = key("b");
    let (locked, released, acquired) = (
        backend.is_locked(&other),
        backend.release(held.lock_id.into()),
        acquire(&backend, "b", 30_000),
    );
    let restarting = async {
        sleep_ms(300).await;
        Server::on(TcpListener::bind(&address).await.unwrap())
    };
    let (locked, released, acquired, _server) =
        tokio::join!(locked, released, acquired, restarting);
    locked.unwrap();
    // The new server knows nothing of the lock.
    assert!(matches!(released.unwrap(), ReleaseOutcome::Missed(_)));
    assert!(acquired.unwrap().is_some());
}

/// The time while the server is away does not count as part of the TTL.
#[tokio::test]
async fn the_ttl_starts_when_the_server_is_back() {
    let server = Server::start().await;
    let backend = server.backend_with(|config| config.connect_timeout_ms = PATIENT_MS);
    assert!(!backend.is_locked(&key("a")).await.unwrap());
    let address = server.address.clone();
    server.stop().await;
    let away = Duration::from_millis(1_500);
    let restarting = async {
        tokio::time::sleep(away).await;
        Server::on(TcpListener::bind(&address).await.unwrap())
    };
    let started_ms = crate::lock::time::system_now_ms();
    let (held, _server) = tokio::join!(acquire(&backend, "a", 10_000), restarting);
    let expires_at_ms = held.unwrap().unwrap().expires_at_ms;
    assert!(expires_at_ms >= started_ms + 10_000 + 1_400);
}

#[tokio::test]
async fn a_read_is_repeated_while_the_server_is_unavailable() {
    let server = Server::start().await;
    let backend = server.backend();
    let unavailable = [Fault::Status(14); 3];
    server.faults.set("BatchGetDocuments", unavailable);
    assert!(acquire(&backend, "a", 30_000).await.unwrap().is_some());

    let impatient = server.backend_with(|config| config.connect_timeout_ms = 200);
    impatient.is_locked(&key("a")).await.unwrap();
    server
        .faults
        .set("BatchGetDocuments", [Fault::Status(14); 1_000]);
    let error = failing(&impatient).await;
    let place = format!("Firestore ({}, project test)", server.address);
    says(
        &error,
        ErrorCode::ServiceUnavailable,
        &[&place, "is not available", "Gave up after"],
    );
    assert_eq!(error.details, [("grpcCode", "UNAVAILABLE".into())]);
}

#[tokio::test]
async fn a_host_without_an_address() {
    let backend = open(emulator("syncguard.invalid:1", 200));
    let error = failing(&backend).await;
    says(
        &error,
        ErrorCode::ServiceUnavailable,
        &["syncguard.invalid:1", "host not found", "Gave up after"],
    );
}

/// An error that waiting cannot fix is reported at once.
#[tokio::test]
async fn a_port_that_speaks_tls_and_one_that_does_not() {
    let tls = answering(b"\x15\x03\x03\x00\x02\x02\x28").await;
    let error = failing(&open(emulator(&tls, PATIENT_MS))).await;
    says(
        &error,
        ErrorCode::InvalidArgument,
        &[&tls, "this is a TLS port", "emulatorHost"],
    );

    let plain = answering(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let key = super::auth::service_account_key();
    let error = failing(&open(service(&plain, key, PATIENT_MS))).await;
    says(
        &error,
        ErrorCode::InvalidArgument,
        &[&plain, "this is not a TLS port", "emulatorHost"],
    );
}

#[tokio::test]
async fn a_server_that_hangs_up() {
    let address = answering(b"").await;
    let error = failing(&open(emulator(&address, 300))).await;
    let hung_up = "it closed the connection before it answered";
    says(
        &error,
        ErrorCode::ServiceUnavailable,
        &[&address, hung_up, "Gave up after"],
    );
}

#[tokio::test]
async fn a_server_that_never_answers_the_handshake_is_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let key = super::auth::service_account_key();
    // TLS, so that the handshake never ends.
    let backend = open(service(&address, key, 500));
    assert!(backend.obstacle().is_none());
    let mut failing = std::pin::pin!(failing(&backend));
    let silent = "does not answer the TLS handshake";
    let obstacle = obstacle_that_says(silent, &backend, failing.as_mut()).await;
    says(
        &obstacle,
        ErrorCode::NetworkTimeout,
        &[&address, "Trying for"],
    );
    let error = failing.await;
    says(
        &error,
        ErrorCode::NetworkTimeout,
        &[&address, silent, "Gave up after"],
    );
    assert!(backend.obstacle().is_none());
}

#[tokio::test]
async fn an_operation_that_joins_an_attempt_to_connect_still_has_its_own_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let key = super::auth::service_account_key();
    let backend = open(service(&address, key, 500));
    let later = async {
        sleep_ms(300).await;
        let started = Instant::now();
        let error = failing(&backend).await;
        assert!(started.elapsed() >= Duration::from_millis(490));
        error
    };
    for error in <[Error; 2]>::from(tokio::join!(failing(&backend), later)) {
        let silent = "does not answer the TLS handshake";
        says(
            &error,
            ErrorCode::NetworkTimeout,
            &[silent, "Gave up after"],
        );
    }
}

#[tokio::test]
async fn a_server_that_accepts_the_connection_and_never_answers_is_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let backend = open(FirestoreConfig {
        operation_timeout_ms: 500,
        ..emulator(&address, 5000)
    });
    let mut failing = std::pin::pin!(failing(&backend));
    let silent = "it accepts connections but does not answer";
    let obstacle = obstacle_that_says(silent, &backend, failing.as_mut()).await;
    says(
        &obstacle,
        ErrorCode::NetworkTimeout,
        &[&address, "Trying for"],
    );
    let error = failing.await;
    says(
        &error,
        ErrorCode::NetworkTimeout,
        &[&address, "operationTimeoutMs"],
    );
    assert!(backend.obstacle().is_none());
}
