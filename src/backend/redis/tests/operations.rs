use std::ops::RangeInclusive;
use std::time::Duration;

use super::server::{Server, Via, keyed, over_both, request, ttl};
use crate::backend::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, LockRecord, LookupQuery, Miss,
    ReleaseOutcome, ReleaseRequest,
};
use crate::error::ErrorCode;
use crate::lock::fence::FENCE_MAX;
use crate::lock::{Key, LockId};

over_both!(
    the_life_of_a_lock,
    locks_are_stored_as_cjson_writes_them,
    an_exhausted_counter_changes_nothing,
    values_that_are_not_locks_are_left_alone,
    a_forged_index_reaches_no_other_lock,
    a_lock_without_a_ttl_is_held_for_the_tolerance,
    the_time_tolerance_and_the_cleanup_guard,
);

pub(super) fn granted(outcome: AcquireOutcome) -> (u64, u64) {
    match outcome {
        AcquireOutcome::Acquired {
            fence,
            expires_at_ms,
            ..
        } => (fence.value(), expires_at_ms),
        AcquireOutcome::Locked(_) => panic!("it is locked"),
    }
}

/// Checks that the key is locked, and for how many milliseconds if the answer says so.
pub(super) fn assert_locked(via: Via, outcome: AcquireOutcome, expected: RangeInclusive<u64>) {
    let AcquireOutcome::Locked(holder) = outcome else {
        panic!("it is not locked")
    };
    let free_in = holder.map(|holder| holder.free_in.as_millis() as u64);
    match via {
        Via::Connection => assert!(expected.contains(&free_in.unwrap()), "{free_in:?}"),
        Via::Client => assert_eq!(free_in, None),
    }
}

async fn the_life_of_a_lock(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    let lock = request("k", 30_000);
    let (fence, expires_at_ms) = granted(backend.acquire(&lock).await.unwrap());
    assert_eq!(fence, 1);
    let refused = backend.acquire(&request("k", 1000)).await.unwrap();
    assert_locked(via, refused, 20_000..=30_001);
    assert!(backend.is_locked(&lock.key).await.unwrap());

    let by_key = backend.lookup(&LookupQuery::Key(lock.key.clone())).await;
    let by_id = backend.lookup(&LookupQuery::LockId(lock.lock_id)).await;
    let expected = LockRecord {
        key: "k".to_owned(),
        lock_id: lock.lock_id,
        expires_at_ms,
        acquired_at_ms: expires_at_ms - 30_000,
        fence: crate::lock::Fence::from_stored(1).unwrap(),
        label: None,
        share: None,
    };
    assert!(by_key.unwrap() == Some(expected.clone()));
    assert!(by_id.unwrap() == Some(expected));

    let ExtendOutcome::Extended { expires_at_ms: new } =
        backend.extend(lock.lock_id, ttl(60_000)).await.unwrap()
    else {
        panic!("not extended")
    };
    assert!(new >= expires_at_ms + 30_000);
    for key in [
        "syncguard:k".to_owned(),
        format!("syncguard:id:{}", lock.lock_id.as_str()),
    ] {
        let left: i64 = server.run(&["PTTL", &key]).await;
        assert!((50_000..=60_000).contains(&left), "{left}");
    }

    assert_eq!(
        backend.release(LockId::generate().into()).await.unwrap(),
        ReleaseOutcome::Missed(Miss::NotFound)
    );
    assert_eq!(
        backend.release(lock.lock_id.into()).await.unwrap(),
        ReleaseOutcome::Released
    );
    assert_eq!(
        backend.release(lock.lock_id.into()).await.unwrap(),
        ReleaseOutcome::Missed(Miss::NotFound)
    );
    assert!(!backend.is_locked(&lock.key).await.unwrap());
    let keys: Vec<String> = server.run(&["KEYS", "*"]).await;
    assert_eq!(keys, ["syncguard:fence:syncguard:k"]);
    assert_eq!(
        granted(backend.acquire(&request("k", 1000)).await.unwrap()).0,
        2
    );
}

async fn locks_are_stored_as_cjson_writes_them(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    for key in [
        "plain",
        "ünïcødé 🔒",
        r#"{"expiresAtMs":1,"lockId":"x"}"#,
        "quotes \" and \\ and / and \u{7f}",
        "line\nbreak\0nul\u{1}",
    ] {
        let lock = request(key, 30_000);
        granted(backend.acquire(&lock).await.unwrap());
        let stored: String = server.run(&["GET", &format!("syncguard:{key}")]).await;
        // Compare the key as cjson encodes it, and each field as cjson decodes it.
        let checked: Vec<String> = server
            .run(&[
                "EVAL",
                "local d = cjson.decode(ARGV[1]) \
                 return {cjson.encode(d.key), d.key, d.lockId, d.fence, tostring(d.expiresAtMs - d.acquiredAtMs)}",
                "0",
                &stored,
            ])
            .await;
        assert!(
            stored.contains(&format!("\"key\":{}", checked[0])),
            "{stored}"
        );
        assert_eq!(
            checked[1..],
            [key, lock.lock_id.as_str(), "000000000000001", "30000"]
        );
        let found = backend.lookup(&LookupQuery::LockId(lock.lock_id)).await;
        assert_eq!(found.unwrap().unwrap().key, key);
        assert_eq!(
            backend.release(lock.lock_id.into()).await.unwrap(),
            ReleaseOutcome::Released
        );
    }
}

async fn an_exhausted_counter_changes_nothing(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    let counter = "syncguard:fence:syncguard:k";
    let last = (FENCE_MAX - 1).to_string();
    let _: () = server.run(&["SET", counter, &last]).await;
    let lock = request("k", 1000);
    assert_eq!(granted(backend.acquire(&lock).await.unwrap()).0, FENCE_MAX);
    backend.release(lock.lock_id.into()).await.unwrap();
    for counted in [FENCE_MAX.to_string(), i64::MAX.to_string(), "-7".to_owned()] {
        let _: () = server.run(&["SET", counter, &counted]).await;
        let error = backend.acquire(&request("k", 1000)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Internal);
        assert!(!error.outcome_unknown);
        let after: String = server.run(&["GET", counter]).await;
        assert_eq!(after, counted);
        let keys: Vec<String> = server.run(&["KEYS", "*"]).await;
        assert_eq!(keys, [counter]);
    }
}

async fn values_that_are_not_locks_are_left_alone(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, r#","cleanupInIsLocked":true"#);
    let key = Key::new("k").unwrap();
    let id = LockId::generate();
    let index = format!("syncguard:id:{}", id.as_str());
    let _: () = server.run(&["SET", &index, "syncguard:k"]).await;
    for garbage in ["garbage", "5", "null", "[]", "{}", r#"{"expiresAtMs":"1"}"#] {
        let _: () = server.run(&["SET", "syncguard:k", garbage]).await;
        let errors = [
            backend.acquire(&request("k", 1000)).await.err(),
            backend.release(id.into()).await.err(),
            backend.extend(id, ttl(1000)).await.err(),
            backend.is_locked(&key).await.err(),
            backend.lookup(&LookupQuery::Key(key.clone())).await.err(),
            backend.lookup(&LookupQuery::LockId(id)).await.err(),
        ];
        for error in errors {
            assert_eq!(error.unwrap().code, ErrorCode::Internal, "{garbage}");
        }
        let after: String = server.run(&["GET", "syncguard:k"]).await;
        assert_eq!(after, garbage);
    }
    // This is larger than the largest reply.
    let lock = request("k", 30_000);
    let _: () = server.run(&["DEL", "syncguard:k"]).await;
    backend.acquire(&lock).await.unwrap();
    let _: () = server
        .run(&["APPEND", "syncguard:k", &" ".repeat(2 << 20)])
        .await;
    for query in [
        LookupQuery::Key(key.clone()),
        LookupQuery::LockId(lock.lock_id),
    ] {
        let error = backend.lookup(&query).await.err().unwrap();
        assert_eq!(error.code, ErrorCode::Internal);
        assert!(!error.outcome_unknown, "the server says so");
    }
    let _: () = server.run(&["DEL", "syncguard:k"]).await;
    let _: () = server.run(&["RPUSH", "syncguard:k", "a"]).await;
    let error = backend.release(id.into()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArgument);
    let length: u32 = server.run(&["LLEN", "syncguard:k"]).await;
    assert_eq!(length, 1);
}

async fn a_forged_index_reaches_no_other_lock(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    let lock = request("k", 30_000);
    backend.acquire(&lock).await.unwrap();
    let thief = LockId::generate();
    let index = format!("syncguard:id:{}", thief.as_str());
    for target in ["syncguard:k", "syncguard:fence:syncguard:k"] {
        let _: () = server.run(&["SET", &index, target]).await;
        let released = backend.release(thief.into()).await;
        let extended = backend.extend(thief, ttl(1)).await;
        if target == "syncguard:k" {
            assert_eq!(released.unwrap(), ReleaseOutcome::Missed(Miss::NotFound));
            assert_eq!(extended.unwrap(), ExtendOutcome::Missed(Miss::NotFound));
        } else {
            assert_eq!(released.unwrap_err().code, ErrorCode::Internal);
            assert_eq!(extended.unwrap_err().code, ErrorCode::Internal);
        }
    }
    assert!(backend.is_locked(&lock.key).await.unwrap());
    assert_eq!(
        server
            .run::<u64>(&["GET", "syncguard:fence:syncguard:k"])
            .await,
        1
    );
}

#[tokio::test]
async fn a_refused_attempt_says_when_the_next_one_succeeds() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    for ms in [400, 401, 402] {
        // Repeat this if the machine was too slow. If the server paused between reading the clock and
        // writing, Redis removes the lock later. If this process paused, the lock is gone before the
        // second attempt.
        let mut tries = (0..10).map(|number| format!("k{ms}:{number}"));
        loop {
            let key = tries.next().expect("the next attempt never succeeded");
            granted(backend.acquire(&request(&key, ms)).await.unwrap());
            let refused = backend.acquire(&request(&key, 1)).await.unwrap();
            let AcquireOutcome::Locked(holder) = refused else {
                continue;
            };
            tokio::time::sleep(holder.unwrap().free_in).await;
            let next = backend.acquire(&request(&key, 1)).await.unwrap();
            if matches!(next, AcquireOutcome::Acquired { .. }) {
                break;
            }
        }
    }
}

/// Stores a lock without a TTL and with other spacing, so that Redis does not remove it. It expired
/// `age_ms` ago.
async fn store(server: &Server, id: LockId, age_ms: i64) {
    let expires = server_time_ms(server).await - age_ms;
    let id = id.as_str();
    let json = format!(
        r#"{{ "lockId": "{id}", "expiresAtMs": {expires}, "acquiredAtMs": 1, "key": "k", "fence": "000000000000001" }}"#
    );
    let _: () = server.run(&["SET", "syncguard:k", &json]).await;
    let index = format!("syncguard:id:{id}");
    let _: () = server.run(&["SET", &index, "syncguard:k"]).await;
    let counter = "syncguard:fence:syncguard:k";
    let _: () = server.run(&["SET", counter, "1"]).await;
}

async fn server_time_ms(server: &Server) -> i64 {
    let (seconds, micros): (i64, i64) = server.run(&["TIME"]).await;
    seconds * 1000 + micros / 1000
}

async fn a_lock_without_a_ttl_is_held_for_the_tolerance(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    let key = Key::new("k").unwrap();
    let id = LockId::generate();
    // Repeat this if the machine was too slow.
    macro_rules! in_time {
        ($operation:expr) => {
            loop {
                let began = server_time_ms(&server).await;
                store(&server, id, 1).await;
                let outcome = $operation.await.unwrap();
                if server_time_ms(&server).await < began + 999 {
                    break outcome;
                }
            }
        };
    }
    let refused = in_time!(backend.acquire(&request("k", 1000)));
    assert_locked(via, refused, 1..=1000);
    assert!(in_time!(backend.is_locked(&key)));
    let query = LookupQuery::Key(key.clone());
    assert!(in_time!(backend.lookup(&query)).is_some());
    let query = LookupQuery::LockId(id);
    assert!(in_time!(backend.lookup(&query)).is_some());
    assert_eq!(in_time!(backend.list(None, 10)).locks.len(), 1);
    assert!(in_time!(backend.force_release(&key)));
    assert_eq!(
        in_time!(backend.release(id.into())),
        ReleaseOutcome::Released
    );
    let extended = in_time!(backend.extend(id, ttl(5000)));
    assert!(matches!(extended, ExtendOutcome::Extended { .. }));
}

async fn the_time_tolerance_and_the_cleanup_guard(via: Via) {
    let server = Server::start(&[]).await;
    let reader = via.backend(&server, "");
    let cleaner = via.backend(&server, r#","cleanupInIsLocked":true"#);
    let key = Key::new("k").unwrap();
    let id = LockId::generate();
    let index = format!("syncguard:id:{}", id.as_str());
    let write = async |age_ms: i64| store(&server, id, age_ms).await;

    // The lock is held, because the tolerance is not over. The foreign format gets the new TTL.
    write(-20_000).await;
    assert!(reader.is_locked(&key).await.unwrap());
    assert!(matches!(
        reader.extend(id, ttl(5000)).await.unwrap(),
        ExtendOutcome::Extended { .. }
    ));
    assert!(server.run::<i64>(&["PTTL", "syncguard:k"]).await > 0);

    write(1500).await;
    assert!(!cleaner.is_locked(&key).await.unwrap());
    let query = LookupQuery::Key(key.clone());
    assert!(reader.lookup(&query).await.unwrap().is_none());
    write(60_000).await;
    assert!(!reader.is_locked(&key).await.unwrap());
    assert_eq!(server.run::<u32>(&["EXISTS", "syncguard:k"]).await, 1);

    assert!(!cleaner.is_locked(&key).await.unwrap());
    while server.run::<u32>(&["EXISTS", "syncguard:k", &index]).await > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(
        server
            .run::<u64>(&["GET", "syncguard:fence:syncguard:k"])
            .await,
        1
    );

    write(1500).await;
    assert_eq!(
        reader.extend(id, ttl(5000)).await.unwrap(),
        ExtendOutcome::Missed(Miss::Expired)
    );
    write(1500).await;
    assert_eq!(
        reader.release(id.into()).await.unwrap(),
        ReleaseOutcome::Missed(Miss::Expired)
    );
    write(1500).await;
    let (fence, _) = granted(reader.acquire(&request("k", 1000)).await.unwrap());
    assert_eq!(fence, 2);
}

#[tokio::test]
async fn forgotten_scripts_are_sent_again() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    for round in 0..3u64 {
        let lock = request("k", 1000);
        assert_eq!(granted(backend.acquire(&lock).await.unwrap()).0, round + 1);
        let _: () = server.run(&["SCRIPT", "FLUSH"]).await;
        assert_eq!(
            backend.release(lock.lock_id.into()).await.unwrap(),
            ReleaseOutcome::Released
        );
    }
}

#[tokio::test]
async fn the_prefix_of_a_client_precedes_ours() {
    let server = Server::start(&[]).await;
    let backend = server.backend(r#","clientKeyPrefix":"app/","keyPrefix":"locks""#);
    let lock = request("k", 1000);
    granted(backend.acquire(&lock).await.unwrap());
    let mut keys: Vec<String> = server.run(&["KEYS", "*"]).await;
    keys.sort();
    assert_eq!(
        keys,
        [
            "app/locks:fence:locks:k".to_owned(),
            format!("app/locks:id:{}", lock.lock_id.as_str()),
            "app/locks:k".to_owned(),
        ]
    );
    assert_eq!(
        backend.release(lock.lock_id.into()).await.unwrap(),
        ReleaseOutcome::Released
    );
}

#[tokio::test]
async fn a_lock_whose_key_is_known_is_released_only_by_its_holder() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    let (lock, other) = (request("k", 30_000), request("k", 30_000));
    granted(backend.acquire(&lock).await.unwrap());
    let missed = ReleaseOutcome::Missed(Miss::NotFound);
    let release = async |of: &AcquireRequest| backend.release(keyed(of)).await;
    assert_eq!(release(&other).await, Ok(missed));
    assert!(backend.is_locked(&lock.key).await.unwrap());
    assert_eq!(release(&lock).await, Ok(ReleaseOutcome::Released));
    assert_eq!(release(&lock).await, Ok(missed));
    let left: Vec<String> = server.run(&["KEYS", "*"]).await;
    assert_eq!(left, ["syncguard:fence:syncguard:k"]);

    // If the caller names the key of another lock, the index has the right one.
    granted(backend.acquire(&lock).await.unwrap());
    let elsewhere = Key::new("elsewhere").unwrap();
    let wrong_key = ReleaseRequest {
        lock_id: lock.lock_id,
        key: Some(elsewhere),
    };
    let released = backend.release(wrong_key).await;
    assert_eq!(released, Ok(ReleaseOutcome::Released));
}
