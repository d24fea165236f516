//! Watching a server that is away, does not answer or refuses to listen.

use std::time::Duration;

use super::firestore_faults::Fault;
use super::watch::{not_notified, notified, strict, watch};
use super::wire::Wire;
use super::{Server, acquire, key, sleep_ms};
use crate::backend::Backend;
use crate::backend::firestore::FirestoreBackend;
use crate::backend::firestore::watch::WatchPolicy;

impl Server {
    /// Opens a backend whose connection the test can cut.
    async fn behind_a_wire(&self) -> (Wire, FirestoreBackend) {
        let wire = Wire::to(&self.address).await;
        let mut config = self.config();
        config.emulator_host = Some(wire.address.clone());
        let backend = self.open(config, strict());
        (wire, backend)
    }

    async fn until_called(&self) {
        while self.calls().is_empty() {
            sleep_ms(5).await;
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_is_replaced() {
    let server = Server::start().await;
    let (wire, backend) = server.behind_a_wire().await;
    let other = server.backend();
    for _ in 0..3 {
        let held = acquire(&other, "a", 30_000).await.unwrap().unwrap();
        let mut watch = watch(&backend, "a");
        not_notified(&mut watch).await;
        wire.cut();
        // The key is still locked.
        not_notified(&mut watch).await;
        other.release(held.lock_id.into()).await.unwrap();
        notified(&mut watch).await;
    }
}

#[tokio::test]
async fn a_release_while_the_stream_is_down_notifies_afterwards() {
    let server = Server::start().await;
    let (wire, backend) = server.behind_a_wire().await;
    let other = server.backend();
    let held = acquire(&other, "a", 30_000).await.unwrap().unwrap();
    let mut watch = watch(&backend, "a");
    not_notified(&mut watch).await;
    wire.set_down(true);
    not_notified(&mut watch).await;
    other.release(held.lock_id.into()).await.unwrap();
    not_notified(&mut watch).await;
    wire.set_down(false);
    notified(&mut watch).await;
    not_notified(&mut watch).await;
}

#[tokio::test]
async fn a_server_that_comes_back_empty_has_no_lock() {
    let server = Server::start().await;
    let (wire, backend) = server.behind_a_wire().await;
    acquire(&server.backend(), "a", 30_000).await.unwrap();
    let mut watch = watch(&backend, "a");
    not_notified(&mut watch).await;
    let restarted = Server::start().await;
    wire.lead_to(&restarted.address);
    wire.cut();
    notified(&mut watch).await;
}

#[tokio::test]
async fn a_server_that_refuses_to_listen_is_asked_rarely() {
    for code in [7, 12] {
        let server = Server::start().await;
        server.faults.set("Listen", [Fault::Status(code); 2]);
        let policy = WatchPolicy {
            retry_refused: Duration::from_secs(1),
            ..strict()
        };
        let backend = server.open_with(server.config(), policy, code == 7);
        let mut first = watch(&backend, "a");
        not_notified(&mut first).await;
        server.until_called().await;
        // A new watch does not make it ask sooner.
        drop(first);
        let mut watch = watch(&backend, "a");
        not_notified(&mut watch).await;
        assert!(server.calls().is_empty());
        notified(&mut watch).await;
        assert_eq!(server.calls(), ["Listen"; 2]);
        let notes = server.warnings();
        assert_eq!(notes.len(), usize::from(code == 7), "{notes:?}");
        if let [note] = notes.as_slice() {
            assert!(note.contains("(PERMISSION_DENIED)"), "{note}");
            assert!(note.contains(&server.address), "{note}");
        }
    }
}

#[tokio::test]
async fn a_stream_without_an_answer_is_replaced() {
    let server = Server::start().await;
    server.faults.set("Listen", [Fault::Swallow, Fault::Mute]);
    let mut config = server.config();
    config.operation_timeout_ms = 300;
    let backend = server.open(config, strict());
    notified(&mut watch(&backend, "a")).await;
    assert_eq!(server.calls(), ["Listen"; 3]);
}

#[tokio::test]
async fn a_connection_that_timed_out_is_not_listened_on() {
    let server = Server::start().await;
    let mut config = server.config();
    config.operation_timeout_ms = 300;
    let backend = server.open(config, strict());
    acquire(&server.backend(), "a", 30_000).await.unwrap();
    let mut watch = watch(&backend, "a");
    not_notified(&mut watch).await;
    server.calls();
    server.faults.set("BatchGetDocuments", [Fault::Swallow]);
    backend.is_locked(&key("a")).await.unwrap_err();
    assert_eq!(server.calls(), ["BatchGetDocuments"]);
    server.until_called().await;
    not_notified(&mut watch).await;
}

#[tokio::test]
async fn closing_or_dropping_a_backend_ends_its_stream() {
    let server = Server::start().await;
    for close in [true, false] {
        let (wire, backend) = server.behind_a_wire().await;
        acquire(&backend, "a", 30_000).await.unwrap();
        let mut watch = watch(&backend, "a");
        not_notified(&mut watch).await;
        if close {
            backend.close().await;
        } else {
            drop(backend);
        }
        let unused = tokio::time::timeout(Duration::from_secs(20), wire.until_unused());
        unused
            .await
            .expect("the connection should have been closed");
        not_notified(&mut watch).await;
    }
}
