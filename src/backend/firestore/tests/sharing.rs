//! Several holders of one key.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use firestore::gcloud_sdk::prost::Message;
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::damage::put_lock;
use super::firestore_faults::Fault;
use super::watch::{not_notified, notified, watch};
use super::{Held, Server, acquire, key, request, sleep_ms, ttl};
use crate::backend::firestore::FirestoreBackend;
use crate::backend::firestore::format::{MAX_HOLDERS, Snapshot, with_lock_id};
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, HOLDER_BITS, Holder, LookupQuery, Miss,
    ReleaseOutcome,
};
use crate::error::Result;
use crate::lock::share::{MARK_LEASE_MS, UNLIMITED};
use crate::lock::time::system_now_ms;
use crate::lock::{Access, HolderLabel, LockId, Share};

const RELEASED: ReleaseOutcome = ReleaseOutcome::Released;
const UNKNOWN: ReleaseOutcome = ReleaseOutcome::Missed(Miss::NotFound);

struct Sharer {
    held: Held,
    share: Share,
}

/// Returns a request for a share, with a lockId as the engine makes it.
fn share_request(text: &str, ttl_ms: u32, limit: u32) -> AcquireRequest {
    let mut request = request(text, ttl_ms);
    request.access = Access::Shared { limit };
    request.lock_id = holder_id();
    request
}

fn holder_id() -> LockId {
    LockId::generate().with_spare_bits(HOLDER_BITS)
}

async fn try_share(
    backend: &FirestoreBackend,
    text: &str,
    ttl_ms: u32,
    limit: u32,
) -> Result<Result<Sharer, Holder>> {
    let request = share_request(text, ttl_ms, limit);
    Ok(match backend.acquire(&request).await? {
        AcquireOutcome::Acquired {
            fence,
            expires_at_ms,
            share,
        } => Ok(Sharer {
            held: Held {
                lock_id: request.lock_id,
                fence,
                expires_at_ms,
            },
            share: share.unwrap(),
        }),
        AcquireOutcome::Locked(holder) => Err(holder.unwrap()),
    })
}

/// Acquires a share, which must succeed.
async fn share(backend: &FirestoreBackend, text: &str, ttl_ms: u32) -> Sharer {
    let shared = try_share(backend, text, ttl_ms, UNLIMITED).await.unwrap();
    shared.unwrap_or_else(|holder| panic!("refused by {holder:?}"))
}

/// Makes an attempt to acquire a share that must be refused. Returns by whom.
async fn refused(backend: &FirestoreBackend, text: &str, limit: u32) -> Holder {
    match try_share(backend, text, 1_000, limit).await.unwrap() {
        Ok(_) => panic!("granted"),
        Err(holder) => holder,
    }
}

/// Makes the attempt of a waiting writer. Returns whether it has acquired the lock.
async fn write(backend: &FirestoreBackend, text: &str, mark: LockId) -> bool {
    let mut request = request(text, 30_000);
    request.mark = Some(mark);
    match backend.acquire(&request).await.unwrap() {
        AcquireOutcome::Acquired { .. } => true,
        AcquireOutcome::Locked(holder) => {
            assert!(holder.unwrap().is_shared);
            false
        }
    }
}

async fn release(backend: &FirestoreBackend, sharer: &Sharer) -> ReleaseOutcome {
    backend.release(sharer.held.lock_id.into()).await.unwrap()
}

/// Reads the lock document as it is stored.
async fn stored(backend: &FirestoreBackend, text: &str) -> Snapshot {
    let read = backend.connections.run(async |attempt| {
        let name = attempt.document_name("locks", text);
        attempt.read([name]).await
    });
    let [lock] = read.await.unwrap();
    lock
}

#[tokio::test]
async fn shares_and_the_calls_they_take() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.backend());
    let first = share(&one, "a", 30_000).await;
    let second = share(&one, "a", 60_000).await;
    assert_eq!(server.calls(), ["BatchGetDocuments", "Commit"].repeat(2));
    assert_eq!((first.share.slot, second.share.slot), (0, 1));
    assert_eq!((first.share.holders, second.share.holders), (1, 2));
    assert_eq!(second.held.fence.value(), 2);

    assert!(acquire(&two, "a", 1_000).await.unwrap().is_none());
    refused(&two, "a", 2).await;
    assert!(two.is_locked(&key("a")).await.unwrap());
    let last = two.lookup(&LookupQuery::Key(key("a"))).await.unwrap();
    assert!(last.unwrap().lock_id == second.held.lock_id);
    assert_eq!(server.calls(), ["BatchGetDocuments"; 4]);

    // This process knows the document of its holders; another one has to find it.
    let by_id = LookupQuery::LockId(first.held.lock_id);
    assert!(one.lookup(&by_id).await.unwrap() == two.lookup(&by_id).await.unwrap());
    assert_eq!(server.calls(), ["BatchGetDocuments", "RunQuery"]);
    let extended = one.extend(first.held.lock_id, ttl(90_000)).await.unwrap();
    assert!(matches!(extended, ExtendOutcome::Extended { .. }));
    assert_eq!(release(&one, &second).await, RELEASED);
    assert_eq!(server.calls(), ["BatchGetDocuments", "Commit"].repeat(2));
    assert_eq!(release(&two, &first).await, RELEASED);
    let calls = ["RunQuery", "BatchGetDocuments", "Commit"];
    assert_eq!(server.calls(), calls);
    assert!(stored(&two, "a").await.version.is_none());

    for backend in [&one, &two] {
        assert_eq!(release(backend, &first).await, UNKNOWN);
    }
    let exclusive = acquire(&two, "a", 1_000).await.unwrap().unwrap();
    assert_eq!(exclusive.fence.value(), 3);
    refused(&one, "a", UNLIMITED).await;
}

#[tokio::test]
async fn the_changes_of_a_process_are_written_together() {
    let server = Server::start().await;
    let backend = server.backend();
    share(&backend, "elsewhere", 30_000).await;
    server.calls();
    let sharers = join_all((0..25).map(|_| share(&backend, "a", 30_000))).await;
    // While the first change is under way, the others come.
    assert_eq!(server.calls(), ["BatchGetDocuments", "Commit"].repeat(2));
    let slots: HashSet<_> = sharers.iter().map(|sharer| sharer.share.slot).collect();
    let fences: HashSet<_> = sharers.iter().map(|sharer| sharer.held.fence).collect();
    assert_eq!((slots.len(), fences.len()), (25, 25));
    let released = join_all(sharers.iter().map(|sharer| release(&backend, sharer))).await;
    assert_eq!(released, [RELEASED; 25]);
    assert_eq!(server.calls(), ["BatchGetDocuments", "Commit"].repeat(2));
    assert!(stored(&backend, "a").await.version.is_none());
    assert_eq!(share(&backend, "a", 1).await.held.fence.value(), 26);
}

#[tokio::test]
async fn a_holder_that_leaves_makes_room_for_one_that_comes_at_the_same_time() {
    let server = Server::start().await;
    let backend = server.backend();
    let first = share(&backend, "a", 60_000).await;
    // The first attempt is made alone, and refused. The other two are made together.
    let (alone, next, released) = tokio::join!(
        try_share(&backend, "a", 60_000, 1),
        try_share(&backend, "a", 60_000, 1),
        release(&backend, &first),
    );
    assert!(alone.unwrap().is_err());
    assert!(next.unwrap().is_ok());
    assert_eq!(released, RELEASED);
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_share_a_key_without_losing_each_others_changes() {
    const LIMIT: u32 = 5;
    let server = Server::start().await;
    let holders = Arc::new(AtomicUsize::new(0));
    let worker = |backend: Arc<FirestoreBackend>| {
        let holders = Arc::clone(&holders);
        async move {
            let mut fences = Vec::new();
            while fences.len() < 10 {
                let attempt = try_share(&backend, "a", 60_000, LIMIT).await.unwrap();
                let Ok(sharer) = attempt else {
                    sleep_ms(2).await;
                    continue;
                };
                let before = holders.fetch_add(1, Ordering::SeqCst);
                assert!(before < LIMIT as usize && sharer.share.slot < LIMIT);
                fences.push(sharer.held.fence.value());
                let extended = backend.extend(sharer.held.lock_id, ttl(60_000)).await;
                assert!(matches!(extended, Ok(ExtendOutcome::Extended { .. })));
                holders.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(release(&backend, &sharer).await, RELEASED);
            }
            fences
        }
    };
    let backends: Vec<_> = (0..4).map(|_| Arc::new(server.backend())).collect();
    let workers = (0..12).map(|n| tokio::spawn(worker(Arc::clone(&backends[n % 4]))));
    let fences = join_all(workers).await.into_iter();
    let mut fences: Vec<_> = fences.flat_map(|fences| fences.unwrap()).collect();
    fences.sort_unstable();
    assert_eq!(fences, (1..=120).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_document_has_room_for_the_most_holders() {
    let server = Server::start().await;
    let backend = server.backend();
    let long = "\u{10FFFF}".repeat(128);
    let label = HolderLabel::new(&"x".repeat(128)).unwrap();
    let attempts = (0..MAX_HOLDERS).map(async |_| {
        let mut request = share_request(&long, 60_000, UNLIMITED);
        request.label = Some(label.clone());
        (backend.acquire(&request).await.unwrap(), request.lock_id)
    });
    let granted = join_all(attempts).await;
    let is_granted = |outcome: &_| matches!(outcome, AcquireOutcome::Acquired { .. });
    assert!(granted.iter().all(|(outcome, _)| is_granted(outcome)));
    refused(&backend, &long, UNLIMITED).await;
    let record = stored(&backend, &long).await.shared().unwrap();
    assert_eq!(record.holders.len(), MAX_HOLDERS as usize);
    let size = record.to_document(String::new()).encoded_len();
    assert!(size < 1 << 20, "{size}");
    let (_, last) = granted.last().unwrap();
    assert_eq!(
        server.backend().release((*last).into()).await.unwrap(),
        RELEASED
    );
    let next = share(&backend, &long, 60_000).await;
    assert_eq!(next.share.slot, MAX_HOLDERS - 1);
}

#[tokio::test]
async fn a_holder_that_has_expired_changes_nothing() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.backend());
    let short = share(&one, "a", 300).await;
    let long = share(&one, "a", 60_000).await;
    assert_eq!(
        refused(&two, "a", 2).await.expires_at_ms,
        short.held.expires_at_ms
    );
    sleep_ms(1_400).await;
    for backend in [&one, &two] {
        let by_id = LookupQuery::LockId(short.held.lock_id);
        assert!(backend.lookup(&by_id).await.unwrap().is_none());
        let expired = ReleaseOutcome::Missed(Miss::Expired);
        assert_eq!(release(backend, &short).await, expired);
        let extended = backend
            .extend(short.held.lock_id, ttl(60_000))
            .await
            .unwrap();
        assert_eq!(extended, ExtendOutcome::Missed(Miss::Expired));
    }
    let next = try_share(&two, "a", 60_000, 2).await.unwrap().ok().unwrap();
    assert_eq!((next.share.slot, next.share.holders), (0, 2));
    // The next write has removed it.
    assert_eq!(release(&one, &short).await, UNKNOWN);
    assert_eq!(
        backend_holders(&two, "a").await,
        [long.held.lock_id, next.held.lock_id]
    );
}

async fn backend_holders(backend: &FirestoreBackend, text: &str) -> Vec<LockId> {
    let record = stored(backend, text).await.shared().unwrap();
    record.holders.iter().map(|holder| holder.lock_id).collect()
}

#[tokio::test]
async fn former_holders_cannot_touch_the_lock_that_replaced_theirs() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.backend());
    let former = share(&one, "a", 1).await;
    let other = share(&one, "a", 1).await;
    sleep_ms(1_100).await;
    let exclusive = acquire(&two, "a", 60_000).await.unwrap().unwrap();
    assert!(!stored(&two, "a").await.is_shared());
    for (backend, sharer) in [(&one, &former), (&two, &other)] {
        let extended = backend.extend(sharer.held.lock_id, ttl(1)).await.unwrap();
        assert_eq!(extended, ExtendOutcome::Missed(Miss::NotFound));
        assert_eq!(release(backend, sharer).await, UNKNOWN);
    }
    let lock = two.lookup(&LookupQuery::Key(key("a"))).await.unwrap();
    assert!(lock.unwrap().lock_id == exclusive.lock_id);
}

#[tokio::test]
async fn nobody_holds_the_lock_id_of_the_record() {
    let server = Server::start().await;
    let backend = server.backend();
    let sharer = share(&backend, "a", 60_000).await;
    let record = stored(&backend, "a").await.shared().unwrap();
    assert!(record.lock_id != sharer.held.lock_id);
    let by_id = LookupQuery::LockId(record.lock_id);
    assert!(backend.lookup(&by_id).await.unwrap().is_none());
    assert_eq!(
        backend.release(record.lock_id.into()).await.unwrap(),
        UNKNOWN
    );
    let extended = backend.extend(record.lock_id, ttl(1)).await.unwrap();
    assert_eq!(extended, ExtendOutcome::Missed(Miss::NotFound));
    assert_eq!(release(&backend, &sharer).await, RELEASED);
}

#[tokio::test]
async fn a_list_has_one_entry_for_each_holder() {
    let server = Server::start().await;
    let backend = server.backend();
    for _ in 0..3 {
        share(&backend, "b", 60_000).await;
    }
    acquire(&backend, "a", 60_000).await.unwrap().unwrap();
    acquire(&backend, "c", 60_000).await.unwrap().unwrap();
    let (mut slots, mut after) = (Vec::new(), None);
    loop {
        let page = backend.list(after.as_deref(), 1).await.unwrap();
        let locks = page.locks.iter();
        slots.extend(locks.map(|lock| (lock.key.clone(), lock.share.map(|share| share.slot))));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let shared = [0, 1, 2].map(|slot| ("b".to_owned(), Some(slot)));
    assert_eq!(slots.first(), Some(&("a".to_owned(), None)));
    assert_eq!(slots[1..4], shared);
    assert_eq!(slots.last(), Some(&("c".to_owned(), None)));
}

#[tokio::test]
async fn a_mark_keeps_new_holders_out_while_it_is_renewed() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.backend());
    let sharer = share(&one, "a", 60_000).await;
    server.calls();
    let (mark, other) = (LockId::generate(), LockId::generate());
    assert!(!write(&two, "a", mark).await);
    // A mark that has just been written is not written again, unless it is another waiter's.
    assert!(!write(&two, "a", mark).await);
    assert_eq!(
        server.calls(),
        ["BatchGetDocuments", "Commit", "BatchGetDocuments"]
    );
    let until_ms = refused(&one, "a", UNLIMITED).await.expires_at_ms;
    assert!(until_ms <= system_now_ms() + MARK_LEASE_MS);
    one.unmark(&key("a"), other).await.unwrap();
    assert_eq!(refused(&one, "a", UNLIMITED).await.expires_at_ms, until_ms);
    sleep_ms(1_000).await;
    assert!(!write(&two, "a", mark).await);
    assert!(refused(&one, "a", UNLIMITED).await.expires_at_ms > until_ms);
    assert!(!write(&one, "a", other).await);
    two.unmark(&key("a"), mark).await.unwrap();
    let refusal = refused(&one, "a", UNLIMITED).await;
    one.unmark(&key("a"), other).await.unwrap();
    assert_eq!(share(&one, "a", 60_000).await.share.slot, 1);

    // A waiter that dies leaves a mark that ends.
    assert!(!write(&two, "a", mark).await);
    assert!(refusal.free_in <= Duration::from_millis(MARK_LEASE_MS));
    sleep(refused(&one, "a", UNLIMITED).await.free_in).await;
    share(&one, "a", 60_000).await;
    assert_eq!(release(&one, &sharer).await, RELEASED);
}

#[tokio::test]
async fn a_mark_without_holders_keeps_only_shares_out() {
    let server = Server::start().await;
    let backend = server.backend();
    let cleaning = server.backend_with(|config| config.cleanup_in_is_locked = true);
    let mark = LockId::generate();
    let sharer = share(&backend, "a", 60_000).await;
    assert!(!write(&backend, "a", mark).await);
    assert_eq!(release(&backend, &sharer).await, RELEASED);
    assert!(!cleaning.is_locked(&key("a")).await.unwrap());
    sleep_ms(50).await;
    let lock = stored(&backend, "a").await;
    assert!(lock.shared().unwrap().mark.is_some());
    assert_eq!(lock.expires_at_ms(), Some(0));
    refused(&backend, "a", UNLIMITED).await;
    assert!(backend.list(None, 10).await.unwrap().locks.is_empty());
    assert!(write(&backend, "a", mark).await);
    assert!(stored(&backend, "a").await.shared().is_none());
    refused(&backend, "a", UNLIMITED).await;

    // A mark that is over goes with the document.
    let sharer = share(&backend, "b", 60_000).await;
    assert!(!write(&backend, "b", mark).await);
    sleep_ms(MARK_LEASE_MS).await;
    assert_eq!(release(&backend, &sharer).await, RELEASED);
    assert!(stored(&backend, "b").await.version.is_none());
}

#[tokio::test]
async fn a_watch_is_notified_when_a_holder_leaves_and_not_when_one_comes() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.strict_backend());
    let first = share(&one, "a", 60_000).await;
    let mut watch = watch(&two, "a");
    not_notified(&mut watch).await;
    let second = share(&one, "a", 60_000).await;
    one.extend(first.held.lock_id, ttl(90_000)).await.unwrap();
    not_notified(&mut watch).await;
    assert_eq!(release(&one, &first).await, RELEASED);
    notified(&mut watch).await;
    not_notified(&mut watch).await;

    // Writers that leave and renew marks would otherwise wake each other for ever.
    let marks = [LockId::generate(), LockId::generate()];
    for mark in marks {
        assert!(!write(&one, "a", mark).await);
    }
    one.unmark(&key("a"), marks[0]).await.unwrap();
    not_notified(&mut watch).await;
    one.unmark(&key("a"), marks[1]).await.unwrap();
    notified(&mut watch).await;

    share(&one, "a", 60_000).await;
    not_notified(&mut watch).await;
    assert_eq!(release(&one, &second).await, RELEASED);
    notified(&mut watch).await;
    assert!(one.force_release(&key("a")).await.unwrap());
    notified(&mut watch).await;
}

#[tokio::test]
async fn an_expired_holder_that_the_next_write_removes_notifies() {
    let server = Server::start().await;
    let (one, two) = (server.backend(), server.strict_backend());
    share(&one, "a", 1).await;
    let long = share(&one, "a", 60_000).await;
    let mut watch = watch(&two, "a");
    not_notified(&mut watch).await;
    sleep_ms(1_100).await;
    not_notified(&mut watch).await;
    one.extend(long.held.lock_id, ttl(60_000)).await.unwrap();
    notified(&mut watch).await;
}

#[tokio::test]
async fn a_share_whose_answer_is_lost_can_be_undone() {
    let server = Server::start().await;
    let (backend, other) = (server.impatient_backend(), server.backend());
    let first = share(&other, "a", 60_000).await;
    let mut lost = share_request("a", 60_000, 2);
    server.faults.set("Commit", [Fault::LoseAnswer]);
    assert!(backend.acquire(&lost).await.unwrap_err().outcome_unknown);
    refused(&other, "a", 2).await;
    assert_eq!(
        backend.release(lost.lock_id.into()).await.unwrap(),
        RELEASED
    );
    assert_eq!(backend_holders(&other, "a").await, [first.held.lock_id]);

    // A commit that is late expects the old counter, which the undo changes.
    lost.lock_id = holder_id();
    server
        .faults
        .set("Commit", [Fault::Late(Duration::from_millis(3_000))]);
    assert!(backend.acquire(&lost).await.unwrap_err().outcome_unknown);
    assert_eq!(backend.release(lost.lock_id.into()).await.unwrap(), UNKNOWN);
    sleep_ms(3_000).await;
    assert_eq!(backend_holders(&other, "a").await, [first.held.lock_id]);
    let next = try_share(&other, "a", 1_000, 2)
        .await
        .unwrap()
        .ok()
        .unwrap();
    assert!(next.held.fence.value() > 2);
}

#[tokio::test]
async fn a_commit_that_fails_fails_for_all_whose_changes_it_carries() {
    let server = Server::start().await;
    let backend = server.backend();
    let sharer = share(&backend, "a", 60_000).await;
    // 7: permission denied. The first change is alone, and the other two are made together.
    server
        .faults
        .set("Commit", [Fault::Status(7), Fault::Status(7)]);
    let results = join_all([0, 1, 2].map(|_| try_share(&backend, "a", 60_000, 9))).await;
    assert!(results.iter().all(Result::is_err));
    assert_eq!(backend_holders(&backend, "a").await, [sharer.held.lock_id]);
    server
        .faults
        .set("Commit", [Fault::Status(9), Fault::Status(10)]);
    assert_eq!(release(&backend, &sharer).await, RELEASED);
    assert!(backend.batches.is_empty());
}

#[tokio::test]
async fn a_stream_of_changes_by_others_only_delays() {
    let server = Server::start().await;
    let backend = server.backend();
    server.faults.set("Commit", vec![Fault::Status(9); 30]);
    let started = Instant::now();
    let sharer = share(&backend, "a", 60_000).await;
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(release(&backend, &sharer).await, RELEASED);
}

#[tokio::test]
async fn a_holder_in_two_documents_is_left_alone() {
    let server = Server::start().await;
    let backend = server.backend();
    let sharer = share(&backend, "a", 60_000).await;
    let document = stored(&backend, "a").await.shared().unwrap();
    let copy = backend.connections.run(async |attempt| {
        let name = attempt.document_name("locks", "b");
        let write = crate::backend::firestore::format::set(document.to_document(name), None);
        attempt.commit(vec![write]).await
    });
    copy.await.unwrap();
    let stranger = server.backend();
    assert_eq!(release(&stranger, &sharer).await, UNKNOWN);
    assert!(server.warnings()[0].starts_with("2 lock documents"));
    assert_eq!(release(&backend, &sharer).await, RELEASED);
    assert_eq!(release(&stranger, &sharer).await, RELEASED);
}

#[tokio::test]
async fn an_exclusive_lock_is_found_with_one_query() {
    let server = Server::start().await;
    let backend = server.backend();
    let lock_id = LockId::generate();
    put_lock(&backend, "a", lock_id, 30_000).await;
    server.calls();
    assert_eq!(backend.release(lock_id.into()).await.unwrap(), RELEASED);
    assert_eq!(server.calls(), ["RunQuery", "Commit"]);
    let query = with_lock_id("locks", lock_id);
    let run = backend
        .connections
        .run(async |attempt| attempt.query(query.clone()).await);
    assert!(run.await.unwrap().is_empty());
}
