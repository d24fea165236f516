//! Shared records on a real server: what the contract suite cannot see.

use std::time::Duration;

use super::operations::granted;
use super::server::{Server, Via, keyed, over_both, request, ttl};
use super::together::{acquire_of, release_of, share_of, together};
use super::watch::{not_woken, watch, woken};
use crate::backend::redis::RedisBackend;
use crate::backend::redis::format::reply;
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, Holder, LockRecord, LookupQuery, Miss,
    ReleaseOutcome,
};
use crate::error::ErrorCode;
use crate::lock::share::UNLIMITED;
use crate::lock::{Access, HolderLabel, Key, LockId, Share};

over_both!(
    a_shared_record_has_the_specified_fields_and_its_holders,
    a_holder_expires_alone,
    the_lock_is_kept_for_the_holder_that_expires_last,
    a_refusal_tells_when_the_attempt_can_succeed,
    a_mark_keeps_out_shared_attempts_only,
    a_mark_belongs_to_one_waiter,
    a_damaged_record_is_left_alone,
    a_thousand_holders_share_a_key,
    there_is_a_limit_of_holders,
);

const MINUTE: u32 = 60_000;

pub(super) fn share(key: &str, limit: u32, ms: u32) -> AcquireRequest {
    AcquireRequest {
        access: Access::Shared { limit },
        ..request(key, ms)
    }
}

async fn shared(backend: &RedisBackend, request: &AcquireRequest) -> Share {
    match backend.acquire(request).await.unwrap() {
        AcquireOutcome::Acquired { share, .. } => share.expect("a shared lock"),
        other => panic!("{other:?}"),
    }
}

async fn refused(backend: &RedisBackend, request: &AcquireRequest) -> Holder {
    match backend.acquire(request).await.unwrap() {
        AcquireOutcome::Locked(Some(holder)) => holder,
        other => panic!("{other:?}"),
    }
}

fn waiter(key: &str, mark: LockId) -> AcquireRequest {
    AcquireRequest {
        mark: Some(mark),
        ..request(key, MINUTE)
    }
}

impl Server {
    async fn stored(&self, key: &str) -> serde_json::Value {
        let stored: String = self.run(&["GET", &format!("syncguard:{key}")]).await;
        serde_json::from_str(&stored).unwrap()
    }

    async fn left(&self, name: &str) -> i64 {
        self.run(&["PTTL", name]).await
    }

    async fn now_ms(&self) -> u64 {
        let (seconds, micros): (u64, u64) = self.run(&["TIME"]).await;
        seconds * 1000 + micros / 1000
    }
}

fn index(lock: &AcquireRequest) -> String {
    format!("syncguard:id:{}", lock.lock_id.as_str())
}

async fn by_id(backend: &RedisBackend, lock_id: LockId) -> Option<LockRecord> {
    backend.lookup(&LookupQuery::LockId(lock_id)).await.unwrap()
}

async fn by_key(backend: &RedisBackend, key: &str) -> Option<LockRecord> {
    let key = Key::new(key).unwrap();
    backend.lookup(&LookupQuery::Key(key)).await.unwrap()
}

async fn a_shared_record_has_the_specified_fields_and_its_holders(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    let label = r#"web-1:42 ["a\b"],é"#;
    let first = AcquireRequest {
        label: HolderLabel::from_stored(label),
        ..share("a \"quote\" / é", 3, 30_000)
    };
    let key = first.key.as_str().to_owned();
    let second = share(&key, 3, MINUTE);
    assert_eq!(
        shared(&backend, &first).await,
        Share {
            slot: 0,
            holders: 1
        }
    );
    let alone = server.stored(&key).await;
    assert_eq!(
        shared(&backend, &second).await,
        Share {
            slot: 1,
            holders: 2
        }
    );
    let stored = server.stored(&key).await;

    let holders = stored["holders"].as_array().unwrap();
    let (one, two) = (&holders[0], &holders[1]);
    let [expires, acquired] = [1, 3].map(|at| two[at].as_u64().unwrap());
    assert_eq!(expires - acquired, u64::from(MINUTE));
    assert_eq!(stored["lockId"], alone["lockId"]);
    assert_eq!(
        stored,
        serde_json::json!({
            "lockId": stored["lockId"], "expiresAtMs": expires, "acquiredAtMs": acquired,
            "key": key, "fence": "000000000000002", "freed": 0,
            "holders": [
                [first.lock_id.as_str(), one[1], 0, one[3], 1, label],
                [second.lock_id.as_str(), expires, 1, acquired, 2, ""],
            ],
        })
    );
    // Nobody holds the lockId of the record.
    let nobody = LockId::parse(stored["lockId"].as_str().unwrap()).unwrap();
    let missed = ReleaseOutcome::Missed(Miss::NotFound);
    assert_eq!(backend.release(nobody.into()).await.unwrap(), missed);

    let found = by_id(&backend, first.lock_id).await.unwrap();
    assert_eq!(found.label, first.label);
    assert_eq!(
        found.share,
        Some(Share {
            slot: 0,
            holders: 2
        })
    );
    assert_eq!(found.fence.value(), 1);
    assert!(by_key(&backend, &key).await == by_id(&backend, second.lock_id).await);

    // The first one's index leads to the key, and has its own TTL.
    let lock: String = server.run(&["GET", &index(&first)]).await;
    assert_eq!(lock, format!("syncguard:{key}"));
    assert!((1..=30_000).contains(&server.left(&index(&first)).await));
    assert!(server.left(&index(&second)).await > 30_000);

    assert_eq!(
        backend.release(keyed(&first)).await.unwrap(),
        ReleaseOutcome::Released
    );
    assert_eq!(backend.release(keyed(&first)).await.unwrap(), missed);
    assert_eq!(server.stored(&key).await["freed"], 1);
    let released = backend.release(second.lock_id.into()).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Released);
    let names: Vec<String> = server.run(&["KEYS", "*"]).await;
    assert_eq!(names, [format!("syncguard:fence:syncguard:{key}")]);
}

async fn a_holder_expires_alone(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    let short = share("k", 2, 50);
    let long = share("k", 2, MINUTE);
    shared(&backend, &short).await;
    shared(&backend, &long).await;
    while by_id(&backend, short.lock_id).await.is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Its index is there again, as if it had expired a moment later.
    let _: () = server.run(&["SET", &index(&short), "syncguard:k"]).await;
    assert_eq!(
        backend.extend(short.lock_id, ttl(MINUTE)).await.unwrap(),
        ExtendOutcome::Missed(Miss::Expired)
    );
    let _: () = server.run(&["SET", &index(&short), "syncguard:k"]).await;
    assert_eq!(
        backend.release(short.lock_id.into()).await.unwrap(),
        ReleaseOutcome::Missed(Miss::Expired)
    );
    assert_eq!(
        server.stored("k").await["holders"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let found = by_key(&backend, "k").await.unwrap();
    assert_eq!(
        found.share,
        Some(Share {
            slot: 1,
            holders: 1
        })
    );
    assert_eq!(backend.list(None, 10).await.unwrap().locks.len(), 1);

    // The next holder takes its place in the record.
    let next = share("k", 2, MINUTE);
    assert_eq!(
        shared(&backend, &next).await,
        Share {
            slot: 0,
            holders: 2
        }
    );
    assert_eq!(
        server.stored("k").await["holders"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        backend.release(keyed(&short)).await.unwrap(),
        ReleaseOutcome::Missed(Miss::NotFound)
    );
}

async fn the_lock_is_kept_for_the_holder_that_expires_last(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    let [a, b] = [share("k", 9, 100_000), share("k", 9, 200_000)];
    shared(&backend, &a).await;
    shared(&backend, &b).await;
    let check = async |last: &AcquireRequest| {
        let found = by_key(&backend, "k").await.unwrap();
        assert_eq!(found.lock_id, last.lock_id);
        assert_eq!(server.stored("k").await["expiresAtMs"], found.expires_at_ms);
        let left = server.left("syncguard:k").await;
        let of_index = server.left(&index(last)).await;
        assert!((left - of_index).abs() < 10_000, "{left} {of_index}");
    };
    check(&b).await;
    // Later than the other one, later still, earlier than before, and earlier than the other one.
    for (lock, ms, last) in [
        (&a, 300_000, &a),
        (&a, 400_000, &a),
        (&a, 350_000, &a),
        (&a, 50_000, &b),
    ] {
        let outcome = backend.extend(lock.lock_id, ttl(ms)).await.unwrap();
        let ExtendOutcome::Extended { expires_at_ms } = outcome else {
            panic!("{outcome:?}")
        };
        let found = by_id(&backend, lock.lock_id).await.unwrap();
        assert_eq!(found.expires_at_ms, expires_at_ms);
        check(last).await;
    }
    let outcome = backend.extend(b.lock_id, ttl(10_000)).await.unwrap();
    assert!(matches!(outcome, ExtendOutcome::Extended { .. }));
    check(&a).await;
    backend.release(a.lock_id.into()).await.unwrap();
    check(&b).await;
}

async fn a_refusal_tells_when_the_attempt_can_succeed(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    let mut expiries = Vec::new();
    for (number, ms) in [30_000, 10_000, 20_000].into_iter().enumerate() {
        let lock = AcquireRequest {
            label: HolderLabel::from_stored(&format!("[{number}]")),
            ..share("k", 3, ms)
        };
        shared(&backend, &lock).await;
        expiries.push(by_id(&backend, lock.lock_id).await.unwrap().expires_at_ms);
    }
    let exclusive = request("k", 1000);
    for (attempt, holder) in [
        (share("k", 3, 1000), 1),
        (share("k", 2, 1000), 2),
        (share("k", 1, 1000), 0),
        (waiter("k", LockId::generate()), 0),
    ] {
        let refused = refused(&backend, &attempt).await;
        assert!(refused.is_shared);
        assert_eq!(refused.expires_at_ms, expiries[holder]);
        let label = refused.label.as_ref().map(HolderLabel::as_str);
        assert_eq!(label, Some(format!("[{holder}]").as_str()));
        let at = Duration::from_millis(expiries[holder].saturating_sub(server.now_ms().await));
        assert!(refused.free_in >= at && refused.free_in <= Duration::from_millis(30_000));
    }
    let refused = refused(&backend, &exclusive).await;
    assert!(refused.is_shared);
    assert_eq!(refused.expires_at_ms, expiries[0]);
}

async fn a_mark_keeps_out_shared_attempts_only(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, r#","cleanupInIsLocked":true"#);
    let holder = share("k", 9, MINUTE);
    shared(&backend, &holder).await;
    // An attempt without a mark changes nothing.
    let before = server.stored("k").await;
    refused(&backend, &request("k", MINUTE)).await;
    assert_eq!(server.stored("k").await, before);

    let mark = LockId::generate();
    refused(&backend, &waiter("k", mark)).await;
    let marked = server.stored("k").await;
    assert_eq!(marked["mark"][0], mark.as_str());
    assert_eq!(marked["holders"], before["holders"]);
    let until = marked["mark"][1].as_u64().unwrap();
    let by_mark = refused(&backend, &share("k", 9, MINUTE)).await;
    assert_eq!((by_mark.expires_at_ms, by_mark.is_shared), (until, true));
    assert!(by_mark.free_in <= Duration::from_millis(2000));

    // Without holders, others see a lock that has expired.
    refused(&backend, &waiter("k", mark)).await;
    backend.release(holder.lock_id.into()).await.unwrap();
    let marked = server.stored("k").await;
    assert_eq!(marked["holders"], serde_json::json!([]));
    assert!(marked["expiresAtMs"].as_u64().unwrap() + 1000 <= server.now_ms().await);
    assert!(!backend.is_locked(&holder.key).await.unwrap());
    assert!(by_key(&backend, "k").await.is_none());
    assert!(backend.list(None, 10).await.unwrap().locks.is_empty());
    assert!((1..=2000).contains(&server.left("syncguard:k").await));
    refused(&backend, &share("k", 9, MINUTE)).await;
    let writer = request("k", MINUTE);
    assert_eq!(granted(backend.acquire(&writer).await.unwrap()).0, 2);
    assert_eq!(server.stored("k").await.get("mark"), None);
    // The key is exclusive, so there is no mark to leave.
    assert!(!refused(&backend, &waiter("k", mark)).await.is_shared);
    assert_eq!(server.stored("k").await.get("mark"), None);
    backend.release(writer.lock_id.into()).await.unwrap();

    // A mark ends with its lease.
    let holder = share("k", 9, MINUTE);
    shared(&backend, &holder).await;
    refused(&backend, &waiter("k", mark)).await;
    let mut held_out = 0;
    while let AcquireOutcome::Locked(_) = backend.acquire(&share("k", 9, MINUTE)).await.unwrap() {
        held_out += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(held_out > 1);
    assert_eq!(server.stored("k").await.get("mark"), None);
    assert!(backend.force_release(&holder.key).await.unwrap());
}

async fn a_mark_belongs_to_one_waiter(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    let holder = share("k", 9, MINUTE);
    let key = &holder.key;
    backend.unmark(key, LockId::generate()).await.unwrap();
    shared(&backend, &holder).await;
    let [one, two] = [LockId::generate(), LockId::generate()];
    refused(&backend, &waiter("k", one)).await;
    refused(&backend, &waiter("k", two)).await;
    let freed = server.stored("k").await["freed"].clone();
    backend.unmark(key, one).await.unwrap();
    let stored = server.stored("k").await;
    assert_eq!(
        (&stored["mark"][0], &stored["freed"]),
        (&two.as_str().into(), &freed)
    );
    backend.unmark(key, two).await.unwrap();
    assert_eq!(server.stored("k").await.get("mark"), None);
    assert_eq!(shared(&backend, &share("k", 9, MINUTE)).await.slot, 1);

    // Without holders, nothing is left.
    refused(&backend, &waiter("k", one)).await;
    for lock in backend.list(None, 10).await.unwrap().locks {
        backend.release(lock.lock_id.into()).await.unwrap();
    }
    backend.unmark(key, one).await.unwrap();
    let names: Vec<String> = server.run(&["KEYS", "*"]).await;
    assert_eq!(names, ["syncguard:fence:syncguard:k"]);
}

async fn a_damaged_record_is_left_alone(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    let holder = share("k", 9, MINUTE);
    shared(&backend, &holder).await;
    let stored: String = server.run(&["GET", "syncguard:k"]).await;
    let entry = &stored[stored.find("[[").unwrap() + 1..stored.len() - 2];
    for damaged in [
        stored.replace(entry, "[]"),
        stored.replace(entry, r#"["x"]"#),
        stored.replace(entry, &format!("{entry} {entry}")),
        stored.replace(entry, &format!("{entry},[")),
        stored.replace(",\"holders\"", " ,\"holders\""),
        stored.replace("\"freed\":0", "\"freed\":null"),
        format!("{stored} "),
    ] {
        let _: () = server.run(&["SET", "syncguard:k", &damaged]).await;
        let error = backend.acquire(&share("k", 9, 1000)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Internal, "{damaged}");
        // It says until when the key is locked, and that counts.
        refused(&backend, &request("k", 1000)).await;
        assert!(backend.is_locked(&holder.key).await.unwrap());
        let query = LookupQuery::Key(holder.key.clone());
        let _ = backend.lookup(&query).await;
        backend.list(None, 10).await.unwrap();
        let after: String = server.run(&["GET", "syncguard:k"]).await;
        assert_eq!(after, damaged);
        refused(&backend, &waiter("k", LockId::generate())).await;
    }
    assert!(backend.force_release(&holder.key).await.unwrap());
    assert_eq!(
        granted(backend.acquire(&request("k", 1000)).await.unwrap()).0,
        2
    );
}

async fn a_thousand_holders_share_a_key(via: Via) {
    const HOLDERS: u32 = 1000;
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    let label = HolderLabel::from_stored(&"[\"]\\".repeat(32));
    let name = "\u{1}".repeat(512);
    let mut locks = Vec::new();
    for slot in 0..HOLDERS {
        let lock = AcquireRequest {
            label: label.clone(),
            ..share(&name, HOLDERS, MINUTE * (1 + slot % 7))
        };
        let share = shared(&backend, &lock).await;
        assert_eq!(
            share,
            Share {
                slot,
                holders: slot + 1
            }
        );
        locks.push(lock);
    }
    assert!(
        refused(&backend, &share(&name, HOLDERS, MINUTE))
            .await
            .is_shared
    );
    let page = backend.list(None, 10).await.unwrap();
    assert_eq!(page.locks.len(), HOLDERS as usize);
    assert!(page.locks.iter().all(|lock| lock.label == label));
    for lock in &locks[..20] {
        let found = by_id(&backend, lock.lock_id).await.unwrap();
        assert_eq!(found.share.unwrap().holders, HOLDERS);
        let extended = backend.extend(lock.lock_id, ttl(MINUTE)).await.unwrap();
        assert!(matches!(extended, ExtendOutcome::Extended { .. }));
    }
    for (number, lock) in locks.iter().enumerate().step_by(10) {
        let request = if number % 20 == 0 {
            keyed(lock)
        } else {
            lock.lock_id.into()
        };
        assert_eq!(
            backend.release(request).await.unwrap(),
            ReleaseOutcome::Released
        );
    }
    let next = share(&name, HOLDERS, MINUTE);
    let expected = Share {
        slot: 0,
        holders: HOLDERS * 9 / 10 + 1,
    };
    assert_eq!(shared(&backend, &next).await, expected);
    assert!(backend.force_release(&next.key).await.unwrap());
    let names: Vec<String> = server.run(&["KEYS", "*"]).await;
    assert_eq!(names.len(), 1, "only the counter");
}

async fn there_is_a_limit_of_holders(via: Via) {
    const MOST: usize = 2000;
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    let first = share("k", UNLIMITED, MINUTE);
    shared(&backend, &first).await;
    // As many others as there may be, written at once.
    let stored: String = server.run(&["GET", "syncguard:k"]).await;
    let expires = server.stored("k").await["expiresAtMs"].as_u64().unwrap();
    let others: String = (1..MOST)
        .map(|slot| {
            let lock_id = LockId::generate();
            format!(
                r#",["{}",{},{slot},1,1,""]"#,
                lock_id.as_str(),
                expires - slot as u64
            )
        })
        .collect();
    let full = format!("{}{others}]}}", &stored[..stored.len() - 2]);
    let _: () = server.run(&["SET", "syncguard:k", &full]).await;
    let next = share("k", UNLIMITED, MINUTE);
    let refused = refused(&backend, &next).await;
    assert_eq!(refused.expires_at_ms, expires - (MOST as u64 - 1));
    backend.release(first.lock_id.into()).await.unwrap();
    let expected = Share {
        slot: 0,
        holders: MOST as u32,
    };
    assert_eq!(shared(&backend, &next).await, expected);
    assert_eq!(backend.list(None, 10).await.unwrap().locks.len(), MOST);
}

#[tokio::test]
async fn shares_are_kept_and_released_at_the_memory_limit() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]).await;
    let backend = server.backend("");
    let locks = [1, 2, 3].map(|_| share("k", 9, MINUTE));
    for lock in &locks {
        shared(&backend, lock).await;
    }
    let mark = LockId::generate();
    let _: () = server.run(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = backend.acquire(&share("k", 9, 1000)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::RateLimited);
    assert!(!error.outcome_unknown);
    let fence: String = server.run(&["GET", "syncguard:fence:syncguard:k"]).await;
    assert_eq!(fence, "3", "nothing was written");
    // The waiter cannot leave its mark, which is no failure.
    assert!(refused(&backend, &waiter("k", mark)).await.is_shared);
    for ms in [90_000, 45_000] {
        let outcome = backend.extend(locks[0].lock_id, ttl(ms)).await.unwrap();
        let ExtendOutcome::Extended { expires_at_ms } = outcome else {
            panic!("{outcome:?}")
        };
        let found = by_id(&backend, locks[0].lock_id).await.unwrap();
        assert_eq!(found.expires_at_ms, expires_at_ms);
    }
    for request in [keyed(&locks[0]), locks[1].lock_id.into()] {
        assert_eq!(
            backend.release(request).await.unwrap(),
            ReleaseOutcome::Released
        );
    }
    assert_eq!(
        server.stored("k").await["holders"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert!(backend.force_release(&locks[2].key).await.unwrap());
    assert!(!backend.is_locked(&locks[2].key).await.unwrap());
}

#[tokio::test]
async fn shared_and_exclusive_calls_share_a_script() {
    let server = Server::start(&[]).await;
    let [a, b, c] = [1, 2, 3].map(|_| share("k", 2, MINUTE));
    let [writer, other] = ["k", "other"].map(|key| request(key, MINUTE));
    let answers = together(
        &server,
        &[
            share_of(&a),
            acquire_of(&other),
            share_of(&b),
            share_of(&c),
            acquire_of(&writer),
            release_of(&a, Some("syncguard:k")),
            share_of(&c),
            release_of(&other, Some("syncguard:other")),
            release_of(&b, None),
            release_of(&c, None),
            acquire_of(&writer),
        ],
    );
    let acquired = |at: usize| match reply::acquired(answers[at].clone()).unwrap() {
        AcquireOutcome::Acquired { fence, share, .. } => Some((
            fence.value(),
            share.map(|share| (share.slot, share.holders)),
        )),
        AcquireOutcome::Locked(holder) => {
            assert!(holder.unwrap().is_shared);
            None
        }
    };
    assert_eq!(acquired(0), Some((1, Some((0, 1)))));
    assert_eq!(acquired(1), Some((1, None)));
    assert_eq!(acquired(2), Some((2, Some((1, 2)))));
    assert_eq!((acquired(3), acquired(4)), (None, None));
    assert_eq!(acquired(6), Some((3, Some((0, 2)))));
    for at in [5, 7, 8, 9] {
        assert_eq!(answers[at], redis::Value::Int(1));
    }
    assert_eq!(acquired(10), Some((4, None)));
}

#[tokio::test]
async fn only_a_change_that_makes_room_wakes() {
    let server = Server::start(&[]).await;
    let (holder, waiting) = (server.backend(""), server.backend(""));
    let [a, b, c] = [1, 2, 3].map(|_| share("k", 9, MINUTE));
    shared(&holder, &a).await;
    let mut watch = watch(&waiting, "k");
    // There may be room from the beginning.
    woken(&mut watch).await;
    shared(&holder, &b).await;
    not_woken(&mut watch).await;
    holder.extend(a.lock_id, ttl(2 * MINUTE)).await.unwrap();
    not_woken(&mut watch).await;
    let mark = LockId::generate();
    refused(&waiting, &waiter("k", mark)).await;
    refused(&holder, &waiter("k", LockId::generate())).await;
    refused(&waiting, &waiter("k", mark)).await;
    not_woken(&mut watch).await;

    waiting.unmark(&a.key, mark).await.unwrap();
    woken(&mut watch).await;
    holder.extend(a.lock_id, ttl(MINUTE)).await.unwrap();
    woken(&mut watch).await;
    holder.release(keyed(&a)).await.unwrap();
    woken(&mut watch).await;
    not_woken(&mut watch).await;

    // Another record in its place.
    holder.release(b.lock_id.into()).await.unwrap();
    shared(&holder, &c).await;
    woken(&mut watch).await;
    holder.release(c.lock_id.into()).await.unwrap();
    let writer = request("k", MINUTE);
    granted(holder.acquire(&writer).await.unwrap());
    while tokio::time::timeout(Duration::from_millis(300), watch.changed())
        .await
        .is_ok()
    {}
    holder.release(keyed(&writer)).await.unwrap();
    shared(&holder, &share("k", 9, MINUTE)).await;
    woken(&mut watch).await;
}
