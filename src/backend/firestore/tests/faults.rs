use std::time::Duration;

use super::firestore_faults::Fault;
use super::{Server, acquire, key, request, sleep_ms};
use crate::backend::firestore::FirestoreBackend;
use crate::backend::{Backend, Miss, ReleaseOutcome};
use crate::error::{Error, ErrorCode};
use crate::lock::LockId;

/// Acquires "a", which must fail. Returns the lockId of the attempt and the error.
async fn failing_acquire(backend: &FirestoreBackend) -> (LockId, Error) {
    let request = request("a", 30_000);
    let error = backend.acquire(&request).await.unwrap_err();
    (request.lock_id, error)
}

fn place(host: &str) -> String {
    format!("Firestore ({host}, project test)")
}

#[tokio::test]
async fn a_silent_server_is_a_timeout_and_leaves_nothing() {
    let server = Server::start().await;
    let backend = server.impatient_backend();
    server.faults.set("BatchGetDocuments", [Fault::Swallow]);
    let (_, error) = failing_acquire(&backend).await;
    assert_eq!(error.code, ErrorCode::NetworkTimeout);
    assert!(!error.outcome_unknown);
    assert!(error.message.contains(&place(&server.address)), "{error}");

    server.faults.set("Commit", [Fault::Swallow]);
    let (lock_id, error) = failing_acquire(&backend).await;
    assert_eq!(error.code, ErrorCode::NetworkTimeout);
    assert!(error.outcome_unknown);
    let undone = backend.release(lock_id.into()).await.unwrap();
    assert_eq!(undone, ReleaseOutcome::Missed(Miss::NotFound));

    // The server holds no locks for the failed calls. The emulator would need 2 s to drop them.
    assert!(acquire(&backend, "a", 1000).await.unwrap().is_some());
}

#[tokio::test]
async fn an_acquire_whose_answer_is_lost_can_be_undone() {
    let server = Server::start().await;
    let (backend, other) = (server.impatient_backend(), server.backend());
    server.faults.set("Commit", [Fault::LoseAnswer]);
    let (lock_id, error) = failing_acquire(&backend).await;
    assert!(error.outcome_unknown);
    assert!(other.is_locked(&key("a")).await.unwrap());
    let undone = backend.release(lock_id.into()).await.unwrap();
    assert_eq!(undone, ReleaseOutcome::Released);
    let next = acquire(&other, "a", 1000).await.unwrap().unwrap();
    assert_eq!(next.fence.value(), 2);
}

#[tokio::test]
async fn an_undone_acquire_cannot_happen_later() {
    let server = Server::start().await;
    let backend = server.impatient_backend();
    server
        .faults
        .set("Commit", [Fault::Late(Duration::from_millis(3000))]);
    let (lock_id, error) = failing_acquire(&backend).await;
    assert!(error.outcome_unknown);
    // A release that is turned away once still undoes the acquire when it is repeated.
    server.faults.set("Commit", [Fault::Status(10)]);
    let undone = backend.release(lock_id.into()).await.unwrap();
    assert_eq!(undone, ReleaseOutcome::Missed(Miss::NotFound));
    sleep_ms(3000).await;
    assert!(!backend.is_locked(&key("a")).await.unwrap());
    // The undo used up the fence that the late commit needed.
    let next = acquire(&backend, "a", 1000).await.unwrap().unwrap();
    assert_eq!(next.fence.value(), 2);
}

#[tokio::test]
async fn codes_become_lock_errors() {
    use ErrorCode::{AuthFailed, InvalidArgument, RateLimited, ServiceUnavailable};
    let server = Server::start().await;
    let backend = server.backend();
    let names = [
        (1, ServiceUnavailable, "CANCELLED", true),
        (2, ServiceUnavailable, "UNKNOWN", true),
        (3, InvalidArgument, "INVALID_ARGUMENT", false),
        (4, ServiceUnavailable, "DEADLINE_EXCEEDED", true),
        (7, AuthFailed, "PERMISSION_DENIED", false),
        (8, RateLimited, "RESOURCE_EXHAUSTED", false),
        (13, ServiceUnavailable, "INTERNAL", true),
        (14, ServiceUnavailable, "UNAVAILABLE", true),
        (16, AuthFailed, "UNAUTHENTICATED", false),
    ];
    for (code, expected, name, unknown) in names {
        for (method, unknown) in [("BatchGetDocuments", false), ("Commit", unknown)] {
            if (method, code) == ("BatchGetDocuments", 14) {
                // This call is repeated: see `away`.
                continue;
            }
            server.faults.set(method, [Fault::Status(code)]);
            let (_, error) = failing_acquire(&backend).await;
            assert_eq!(error.code, expected, "{method} {code}");
            assert_eq!(error.outcome_unknown, unknown, "{method} {code}");
            assert_eq!(error.details, [("grpcCode", name.into())]);
            assert!(error.cause.is_none(), "a server's text may quote a key");
            assert!(error.message.contains(&place(&server.address)), "{error}");
        }
    }
    for (code, text) in [(5, "does not exist"), (9, "Native mode")] {
        server
            .faults
            .set("BatchGetDocuments", [Fault::Status(code)]);
        let (_, error) = failing_acquire(&backend).await;
        assert_eq!(error.code, InvalidArgument);
        assert!(error.message.contains(text), "{error}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_the_callers_fault() {
    let server = Server::start().await;
    let backend = server.backend();
    server.faults.set("BatchGetDocuments", [Fault::Oversized]);
    let (_, error) = failing_acquire(&backend).await;
    assert_eq!(error.code, ErrorCode::Internal);
    assert!(!error.outcome_unknown);
    server.faults.set("Commit", [Fault::Oversized]);
    let (lock_id, error) = failing_acquire(&backend).await;
    assert_eq!(error.code, ErrorCode::Internal);
    assert!(error.outcome_unknown);
    let undone = backend.release(lock_id.into()).await.unwrap();
    assert_eq!(undone, ReleaseOutcome::Released);
}

#[tokio::test]
async fn collisions_are_retried_but_not_for_ever() {
    let server = Server::start().await;
    let backend = server.backend();
    server.faults.set("BatchGetDocuments", [Fault::Status(10)]);
    server.faults.set(
        "Commit",
        [Fault::Status(10), Fault::Status(9), Fault::Status(6)],
    );
    let held = acquire(&backend, "a", 30_000).await.unwrap().unwrap();
    assert_eq!(held.fence.value(), 1);
    server.faults.set("Commit", [Fault::Status(10)]);
    let released = backend.release(held.lock_id.into()).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Released);

    let impatient = server.impatient_backend();
    server.faults.set("Commit", [Fault::Status(10); 100]);
    for backend in [&impatient, &backend] {
        let (_, error) = failing_acquire(backend).await;
        assert_eq!(error.code, ErrorCode::ServiceUnavailable);
        assert!(!error.outcome_unknown);
    }
    assert!(!backend.is_locked(&key("a")).await.unwrap());
}
