//! Documents that another program wrote.

use std::collections::HashMap;

use ValueType::{DoubleValue, IntegerValue, NullValue, StringValue};
use firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use firestore::gcloud_sdk::google::firestore::v1::{Document, Value, Write};

use super::{Server, acquire, key, ttl};
use crate::backend::firestore::FirestoreBackend;
use crate::backend::firestore::format::with_lock_id;
use crate::backend::{Backend, ExtendOutcome, LookupQuery, Miss, ReleaseOutcome};
use crate::error::ErrorCode;
use crate::lock::LockId;
use crate::lock::time::system_now_ms;

async fn put(backend: &FirestoreBackend, path: &str, fields: &[(&str, ValueType)]) {
    let (collection, id) = path.split_once('/').unwrap();
    let fields = fields.iter().map(|(field, value)| {
        let value_type = Some(value.clone());
        ((*field).to_owned(), Value { value_type })
    });
    let fields: HashMap<_, _> = fields.collect();
    let commit = backend.connections.run(async |attempt| {
        let document = Document {
            name: attempt.document_name(collection, id),
            fields: fields.clone(),
            ..Document::default()
        };
        let write = Write {
            operation: Some(Operation::Update(document)),
            ..Write::default()
        };
        attempt.commit(vec![write]).await
    });
    commit.await.unwrap();
}

/// Returns the names of all documents with this lockId.
async fn names_with(backend: &FirestoreBackend, lock_id: LockId) -> Vec<String> {
    let query = with_lock_id("locks", lock_id);
    let run = backend
        .connections
        .run(async |attempt| attempt.query(query.clone()).await);
    let found = run.await.unwrap().into_iter();
    found.map(|lock| lock.name).collect()
}

fn text(text: &str) -> ValueType {
    StringValue(text.to_owned())
}

fn in_ms(ms: i64) -> ValueType {
    IntegerValue(i64::try_from(system_now_ms()).unwrap() + ms)
}

pub(super) async fn put_lock(
    backend: &FirestoreBackend,
    id: &str,
    lock_id: LockId,
    expires_in_ms: i64,
) {
    let fields = [
        ("lockId", text(lock_id.as_str())),
        ("expiresAtMs", in_ms(expires_in_ms)),
        ("acquiredAtMs", in_ms(-1)),
        ("key", text(id)),
        ("fence", text("000000000000007")),
    ];
    put(backend, &format!("locks/{id}"), &fields).await;
}

#[tokio::test]
async fn several_live_duplicates_are_left_alone() {
    let server = Server::start().await;
    let backend = server.backend();
    let lock_id = LockId::generate();
    put_lock(&backend, "a", lock_id, 30_000).await;
    put_lock(&backend, "b", lock_id, 30_000).await;
    put_lock(&backend, "c", lock_id, -5_000).await;
    assert!(
        backend
            .lookup(&LookupQuery::LockId(lock_id))
            .await
            .unwrap()
            .is_none()
    );
    let extended = backend.extend(lock_id, ttl(1)).await.unwrap();
    assert_eq!(extended, ExtendOutcome::Missed(Miss::NotFound));
    let released = backend.release(lock_id.into()).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Missed(Miss::NotFound));
    for live in ["a", "b"] {
        assert!(backend.is_locked(&key(live)).await.unwrap());
    }
    let warnings = server.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("3 lock documents"));
    assert!(!warnings[0].contains(lock_id.as_str()));
}

#[tokio::test]
async fn expired_duplicates_are_removed() {
    let server = Server::start().await;
    let backend = server.backend();
    let lock_id = LockId::generate();
    put_lock(&backend, "a", lock_id, 30_000).await;
    put_lock(&backend, "b", lock_id, -5_000).await;
    put_lock(&backend, "c", lock_id, -5_000).await;
    let extended = backend.extend(lock_id, ttl(30_000)).await.unwrap();
    assert!(matches!(extended, ExtendOutcome::Extended { .. }));
    let left = names_with(&backend, lock_id).await;
    assert_eq!(left.len(), 1);
    assert!(left[0].ends_with("/locks/a"));

    let expired = LockId::generate();
    put_lock(&backend, "d", expired, -5_000).await;
    put_lock(&backend, "e", expired, -5_000).await;
    let released = backend.release(expired.into()).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Missed(Miss::Expired));
    assert!(names_with(&backend, expired).await.is_empty());
}

#[tokio::test]
async fn a_document_without_a_readable_expiry_is_no_lock() {
    let server = Server::start().await;
    let backend = server.backend();
    let garbage: [&[(&str, ValueType)]; 6] = [
        &[],
        &[("expiresAtMs", text("9999999999999"))],
        &[("expiresAtMs", NullValue(0))],
        &[("expiresAtMs", IntegerValue(-1))],
        &[("expiresAtMs", DoubleValue(f64::NAN))],
        &[("expiresAtMs", DoubleValue(f64::INFINITY))],
    ];
    for (n, fields) in garbage.into_iter().enumerate() {
        let id = format!("k{n}");
        put(&backend, &format!("locks/{id}"), fields).await;
        assert!(!backend.is_locked(&key(&id)).await.unwrap());
        let by_key = LookupQuery::Key(key(&id));
        assert!(backend.lookup(&by_key).await.unwrap().is_none());
        assert!(acquire(&backend, &id, 30_000).await.unwrap().is_some());
        assert!(backend.lookup(&by_key).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_live_document_with_other_fields_damaged_still_locks() {
    let server = Server::start().await;
    let backend = server.backend();
    let expiry = || DoubleValue(system_now_ms() as f64 + 30_000.0);
    for (n, fields) in [
        vec![("expiresAtMs", expiry())],
        vec![("expiresAtMs", expiry()), ("lockId", IntegerValue(1))],
        vec![("expiresAtMs", expiry()), ("lockId", text("short"))],
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("k{n}");
        put(&backend, &format!("locks/{id}"), &fields).await;
        assert!(backend.is_locked(&key(&id)).await.unwrap());
        assert!(acquire(&backend, &id, 1).await.unwrap().is_none());
        let error = backend.lookup(&LookupQuery::Key(key(&id))).await;
        assert_eq!(error.err().unwrap().code, ErrorCode::Internal);
    }
}

#[tokio::test]
async fn a_list_skips_documents_that_are_no_locks_and_fails_on_unreadable_locks() {
    let server = Server::start().await;
    let backend = server.backend();
    put_lock(&backend, "a", LockId::generate(), 30_000).await;
    put(&backend, "locks/b", &[("expiresAtMs", text("soon"))]).await;
    put(&backend, "locks/c", &[]).await;
    let page = backend.list(None, 10).await.unwrap();
    assert_eq!(page.locks.len(), 1);
    put(&backend, "locks/d", &[("expiresAtMs", in_ms(30_000))]).await;
    let error = backend.list(None, 10).await.err().unwrap();
    assert_eq!(error.code, ErrorCode::Internal);
    // A lock that cannot be read can still be released by force.
    assert!(backend.force_release(&key("d")).await.unwrap());
    assert!(!backend.force_release(&key("b")).await.unwrap());
    assert_eq!(backend.list(None, 10).await.unwrap().locks.len(), 1);
}

#[tokio::test]
async fn a_damaged_counter_never_starts_from_zero() {
    let server = Server::start().await;
    let backend = server.backend();
    let damaged: [&[(&str, ValueType)]; 6] = [
        &[],
        &[("fence", text(""))],
        &[("fence", text("12x"))],
        &[("fence", text("0000000000000001"))],
        &[("fence", IntegerValue(-1))],
        &[("fence", NullValue(0))],
    ];
    for (n, fields) in damaged.into_iter().enumerate() {
        let id = format!("k{n}");
        put(&backend, &format!("fence_counters/fence:{id}"), fields).await;
        let error = acquire(&backend, &id, 30_000).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Internal);
        assert!(!backend.is_locked(&key(&id)).await.unwrap());
    }
}

#[tokio::test]
async fn counters_continue_up_to_the_limit() {
    let server = Server::start().await;
    let backend = server.backend();
    for (counter, next) in [
        (text("000000000000041"), Some("000000000000042")),
        (text("41"), Some("000000000000042")),
        (IntegerValue(41), Some("000000000000042")),
        (text("899999999999999"), Some("900000000000000")),
        (text("900000000000000"), None),
        (text("999999999999999"), None),
    ] {
        let id = format!("{counter:?}");
        let path = format!("fence_counters/fence:{id}");
        put(&backend, &path, &[("fence", counter)]).await;
        let acquired = acquire(&backend, &id, 30_000).await;
        match (next, acquired) {
            (Some(fence), Ok(Some(held))) => assert_eq!(held.fence.to_string(), fence),
            (None, Err(error)) => {
                assert_eq!(error.code, ErrorCode::Internal);
                assert!(!backend.is_locked(&key(&id)).await.unwrap());
            }
            (_, other) => panic!("{id}: {other:?}"),
        }
    }
}
