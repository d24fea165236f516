//! A server that has reached `maxmemory` and evicts nothing accepts no new locks. Locks that are held
//! can be extended and released.

use redis::Value;

use super::operations::granted;
use super::server::{Server, Via, keyed, over_both, request, ttl};
use super::together::{acquire_of, release_of, together};
use crate::backend::{Backend, ExtendOutcome, LookupQuery, ReleaseOutcome};
use crate::error::ErrorCode;

over_both!(held_locks_are_extended_and_released);

/// Makes the server refuse every command that could need memory.
async fn fill_up(server: &Server) {
    let _: () = server.run(&["CONFIG", "SET", "maxmemory", "1"]).await;
}

async fn held_locks_are_extended_and_released(via: Via) {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]).await;
    let backend = via.backend(&server, "");
    let [a, b, c] = ["a", "b", "c"].map(|key| request(key, 30_000));
    for lock in [&a, &b, &c] {
        granted(backend.acquire(lock).await.unwrap());
    }
    fill_up(&server).await;

    let error = backend.acquire(&request("new", 1000)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::RateLimited);
    assert!(error.message.contains("maxmemory"), "{error}");
    assert!(!error.outcome_unknown);
    let fence: Option<String> = server.run(&["GET", "syncguard:fence:syncguard:new"]).await;
    assert_eq!(fence, None, "nothing was written");

    for ms in [60_000, 90_000, 45_000] {
        let extended = backend.extend(a.lock_id, ttl(ms)).await.unwrap();
        let ExtendOutcome::Extended { expires_at_ms } = extended else {
            panic!("{extended:?}")
        };
        let found = backend.lookup(&LookupQuery::LockId(a.lock_id)).await;
        assert_eq!(found.unwrap().unwrap().expires_at_ms, expires_at_ms);
        for key in [
            "syncguard:a".to_owned(),
            format!("syncguard:id:{}", a.lock_id.as_str()),
        ] {
            let left: i64 = server.run(&["PTTL", &key]).await;
            assert!((1..=i64::from(ms)).contains(&left), "{left}");
            assert!(left > i64::from(ms) - 20_000, "{left}");
        }
    }

    let released = [
        backend.release(a.lock_id.into()).await.unwrap(),
        backend.release(keyed(&b)).await.unwrap(),
    ];
    assert_eq!(released, [ReleaseOutcome::Released; 2]);
    assert!(backend.force_release(&c.key).await.unwrap());
    let left: Vec<String> = server.run(&["KEYS", "syncguard:?"]).await;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn only_acquires_of_a_shared_script_are_refused() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]).await;
    let backend = server.backend("");
    let [a, b, new] = ["a", "b", "new"].map(|key| request(key, 30_000));
    for lock in [&a, &b] {
        granted(backend.acquire(lock).await.unwrap());
    }
    fill_up(&server).await;
    let answers = together(
        &server,
        &[
            acquire_of(&new),
            release_of(&a, Some("syncguard:a")),
            release_of(&b, None),
        ],
    );
    let [Value::ServerError(refused), released @ ..] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!(refused.code(), "OOM");
    assert_eq!(released, [Value::Int(1), Value::Int(1)]);
    let left: Vec<String> = server.run(&["KEYS", "*new*"]).await;
    assert!(left.is_empty(), "{left:?}");
}
