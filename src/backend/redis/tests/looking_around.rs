use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::server::{Server, Via, deployment, over_both, request, request_to};
use crate::backend::redis::RedisBackend;
use crate::backend::report::Verdict;
use crate::backend::{AcquireOutcome, Backend, LockRecord, Miss, ReleaseOutcome};
use crate::error::ErrorCode;
use crate::lock::Key;

over_both!(
    a_list_has_all_live_locks,
    a_list_has_nothing_else,
    pages_are_small_and_miss_no_lock,
    an_invalid_cursor_is_refused,
    a_forced_release_keeps_only_the_counter,
    a_forced_release_touches_nothing_else,
    a_cluster_lists_and_releases,
    prefixes_that_contain_each_other_are_reported,
);

async fn all(backend: &RedisBackend, limit: usize) -> BTreeMap<String, LockRecord> {
    let mut locks = BTreeMap::new();
    let mut after = None;
    loop {
        let page = backend.list(after.as_deref(), limit).await.unwrap();
        // A server may return the same lock twice.
        locks.extend(page.locks.into_iter().map(|lock| (lock.key.clone(), lock)));
        match page.next {
            Some(next) => after = Some(next),
            None => return locks,
        }
    }
}

async fn keys(backend: &RedisBackend) -> BTreeSet<String> {
    all(backend, 10).await.into_keys().collect()
}

async fn a_list_has_all_live_locks(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    let names = [
        "plain".to_owned(),
        "ünïcødé \" / \n".to_owned(),
        "id:42".to_owned(),
        "id:AAAAAAAAAAAAAAAAAAAAAA".to_owned(),
        "fence:syncguard:plain".to_owned(),
        "x".repeat(512),
    ];
    for name in &names {
        backend.acquire(&request(name, 30_000)).await.unwrap();
    }
    let expected: BTreeSet<String> = names.into();
    assert_eq!(keys(&backend).await, expected);
    let ended = request("ended", 30_000);
    backend.acquire(&ended).await.unwrap();
    backend.release(ended.lock_id.into()).await.unwrap();
    assert_eq!(keys(&backend).await, expected);
    let plain = &all(&backend, 1).await["plain"];
    let query = crate::backend::LookupQuery::LockId(plain.lock_id);
    assert!(backend.lookup(&query).await.unwrap().as_ref() == Some(plain));
}

async fn a_list_has_nothing_else(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    let lock = request("k", 30_000);
    backend.acquire(&lock).await.unwrap();
    let stored: String = server.run(&["GET", "syncguard:k"]).await;
    // Other types, other values, a copy of a lock, an expired lock, and one that is far too large.
    let _: () = server.run(&["RPUSH", "syncguard:list", "a"]).await;
    let _: () = server.run(&["SET", "syncguard:text", "text"]).await;
    let _: () = server.run(&["SET", "syncguard:json", "{}"]).await;
    let _: () = server.run(&["SET", "syncguard:copy", &stored]).await;
    let old = r#"{"lockId":"AAAAAAAAAAAAAAAAAAAAAA","expiresAtMs":5,"acquiredAtMs":1,"key":"old","fence":"000000000000001"}"#;
    let _: () = server.run(&["SET", "syncguard:old", old]).await;
    let long = stored.replace("\"key\":\"k\"", "\"key\":\"long\"");
    let long = long.replace('}', &format!(",\"more\":\"{}\"}}", "x".repeat(5000)));
    let _: () = server.run(&["SET", "syncguard:long", &long]).await;
    // Prefixes that contain ours, or that it matches as a pattern.
    for prefix in ["syncguard:sub", "syncguardian", "other"] {
        let other = via.backend(&server, &format!(r#","keyPrefix":"{prefix}""#));
        other.acquire(&request("k2", 30_000)).await.unwrap();
        assert_eq!(keys(&other).await, ["k2".to_owned()].into());
    }
    assert_eq!(keys(&backend).await, ["k".to_owned()].into());
    let odd = via.backend(&server, r#","keyPrefix":"-^*[a]?\\""#);
    assert!(keys(&odd).await.is_empty());
    odd.acquire(&request("k3", 30_000)).await.unwrap();
    assert_eq!(keys(&odd).await, ["k3".to_owned()].into());
    let none = via.backend(&server, r#","keyPrefix":"""#);
    none.acquire(&request("k4", 30_000)).await.unwrap();
    assert_eq!(keys(&none).await, ["k4".to_owned()].into());
}

async fn pages_are_small_and_miss_no_lock(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    for i in 0..500 {
        let name = format!("k{i}{}", "\u{1}".repeat(500));
        backend.acquire(&request(&name, 60_000)).await.unwrap();
        let _: () = server.run(&["SET", &format!("other{i}"), "x"]).await;
    }
    let mut after = None;
    let mut seen = BTreeSet::new();
    loop {
        let page = backend.list(after.as_deref(), 5).await.unwrap();
        // A quarter of the hundred names in a batch are these.
        assert!(page.locks.len() <= 80, "{}", page.locks.len());
        seen.extend(page.locks.into_iter().map(|lock| lock.key));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen.len(), 500);
    // A page is limited, whatever the caller asks for. Each of these locks has 3 KB.
    let page = backend.list(None, usize::MAX).await.unwrap();
    assert!(page.locks.len() <= 160, "{}", page.locks.len());
}

async fn an_invalid_cursor_is_refused(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    for bad in [
        "",
        "0",
        "x",
        "0:x",
        "0:-1",
        "0:+1",
        "0: 1",
        "0:18446744073709551616",
        "0:1\r\n",
        "1:0",
        ":0",
        "0:",
    ] {
        let error = backend.list(Some(bad), 10).await.err().unwrap();
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{bad}");
    }
    let last = "0:18446744073709551615";
    assert!(backend.list(Some(last), 10).await.is_ok());
}

async fn a_forced_release_keeps_only_the_counter(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    for name in ["k", "id:AAAAAAAAAAAAAAAAAAAAAA"] {
        let lock = request(name, 30_000);
        let other = request("other", 30_000);
        assert!(!backend.force_release(&lock.key).await.unwrap());
        backend.acquire(&lock).await.unwrap();
        backend.acquire(&other).await.unwrap();
        assert!(backend.force_release(&lock.key).await.unwrap());
        assert!(!backend.force_release(&lock.key).await.unwrap());
        assert_eq!(
            backend.release(lock.lock_id.into()).await.unwrap(),
            ReleaseOutcome::Missed(Miss::NotFound)
        );
        backend.release(other.lock_id.into()).await.unwrap();
        let left: Vec<String> = server.run(&["KEYS", "*"]).await;
        assert!(left.iter().all(|name| name.starts_with("syncguard:fence:")));
        let next = backend.acquire(&lock).await.unwrap();
        assert!(matches!(next, AcquireOutcome::Acquired { fence, .. } if fence.value() == 2));
        backend.release(lock.lock_id.into()).await.unwrap();
    }
}

async fn a_forced_release_touches_nothing_else(via: Via) {
    let server = Server::start(&[]).await;
    let backend = via.backend(&server, "");
    let key = Key::new("k").unwrap();
    let id = "AAAAAAAAAAAAAAAAAAAAAA";
    let write = async |lock_id: &str, expires_at_ms: u64| {
        let json = format!(
            r#"{{"lockId": "{lock_id}", "expiresAtMs": {expires_at_ms}, "acquiredAtMs": 1, "key": "k", "fence": "000000000000001"}}"#
        );
        let _: () = server.run(&["SET", "syncguard:k", &json]).await;
    };
    // This lock was stored by another program, and its index leads to another lock.
    let index = format!("syncguard:id:{id}");
    let _: () = server.run(&["SET", &index, "syncguard:other"]).await;
    let _: () = server
        .run(&["SET", "syncguard:id:short", "syncguard:k"])
        .await;
    for lock_id in [id, "short"] {
        write(lock_id, u64::from(u32::MAX) * 1000).await;
        assert!(backend.force_release(&key).await.unwrap());
    }
    // The lock has expired, so it was not live.
    write(id, 5).await;
    assert!(!backend.force_release(&key).await.unwrap());
    let mut left: Vec<String> = server.run(&["KEYS", "*"]).await;
    left.sort();
    assert_eq!(left, [index, "syncguard:id:short".to_owned()]);

    let _: () = server.run(&["SET", "syncguard:k", "something else"]).await;
    let error = backend.force_release(&key).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Internal);
    assert_eq!(server.run::<u32>(&["EXISTS", "syncguard:k"]).await, 1);
}

/// A cluster refuses names that a script makes itself, unless they are in the slot of its keys.
async fn a_cluster_lists_and_releases(via: Via) {
    let server = Server::start(&["--cluster-enabled", "yes"]).await;
    let slots: Vec<String> = (0..16384).map(|slot: u16| slot.to_string()).collect();
    let mut command = redis::cmd("CLUSTER");
    let _: () = server.query(command.arg("ADDSLOTS").arg(slots)).await;
    while !server
        .run::<String>(&["CLUSTER", "INFO"])
        .await
        .contains("cluster_state:ok")
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let backend = match via {
        Via::Connection => {
            let node = format!(r#"{{"host":"127.0.0.1","port":{}}}"#, server.port);
            deployment(&format!(r#"{{"kind":"cluster","nodes":[{node}]}}"#), "").unwrap()
        }
        Via::Client => via.backend(&server, r#""cluster":true"#),
    };
    let names: BTreeSet<String> = (0..50).map(|i| format!("k{i}")).collect();
    for name in &names {
        let lock = request_to(&backend, name, 30_000);
        backend.acquire(&lock).await.unwrap();
    }
    assert_eq!(keys(&backend).await, names);
    for name in &names {
        let key = Key::new(name).unwrap();
        assert!(backend.force_release(&key).await.unwrap());
    }
    let left: usize = server.run(&["DBSIZE"]).await;
    assert_eq!(left, names.len());
}

async fn prefixes_that_contain_each_other_are_reported(via: Via) {
    let server = Server::start(&[]).await;
    let lock_under = async |prefix: &str| {
        let backend = via.backend(&server, &format!(r#","keyPrefix":"{prefix}""#));
        backend
            .acquire(&request("k:fence:x", 30_000))
            .await
            .unwrap();
        backend
    };
    let finding = async |backend: &RedisBackend| {
        let mut found = backend.report().await.unwrap().into_iter();
        found.find(|found| found.name == "prefixes").unwrap()
    };
    let backend = lock_under("syncguard").await;
    for unrelated in ["syncguardian", "other:syncguard", "billing"] {
        lock_under(unrelated).await;
    }
    // Names that only look like names of counters.
    for name in ["syncguard:a:fence:b:c", "syncguard:a:fence:", ":fence:x:y"] {
        let _: () = server.run(&["SET", name, "1"]).await;
    }
    let found = finding(&backend).await;
    assert_eq!(found.value, "none contains another");
    assert_eq!(found.verdict, Verdict::Ok);

    let inner = lock_under("syncguard:billing").await;
    for backend in [&backend, &inner] {
        let found = finding(backend).await;
        assert_eq!(found.value, r#""syncguard" contains "syncguard:billing""#);
        assert_eq!(found.verdict, Verdict::Warning);
    }
}

/// A report visits only some of many names, in small steps.
#[tokio::test]
async fn only_a_sample_of_many_names_is_visited() {
    let server = Server::start(&[]).await;
    let fill = "for i = 1, 60000 do redis.call('SET', 'other:' .. i, '') end";
    let _: () = server.run(&["EVAL", fill, "0"]).await;
    let backend = server.backend("");
    let found = backend.report().await.unwrap();
    let found = found.iter().find(|found| found.name == "prefixes").unwrap();
    assert!(found.value.contains("sample"), "{}", found.value);
}
