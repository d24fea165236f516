//! Calls that share a script, on a real server.

use std::io::{Read, Write};
use std::net::TcpStream;

use futures_util::future::join_all;
use redis::Value;

use super::operations::{assert_locked, granted};
use super::server::{Server, Via, request};
use crate::backend::redis::connection::resp;
use crate::backend::redis::format::reply;
use crate::backend::redis::format::scripts;
use crate::backend::{AcquireRequest, Backend, LookupQuery, ReleaseOutcome};
use crate::lock::{Access, LockId};

/// The keys and the arguments of a call.
pub(super) type Parts = (Vec<String>, Vec<String>);

pub(super) fn acquire_of(request: &AcquireRequest) -> Parts {
    let (key, lock_id) = (request.key.as_str(), request.lock_id.as_str());
    let lock = format!("syncguard:{key}");
    let fence = format!("syncguard:fence:{lock}");
    let args = [lock_id, "30000", "1000", &lock, key, ""].map(str::to_owned);
    (vec![lock, index_of(request), fence], args.into())
}

/// Returns an acquire of a share. `request` must be one.
pub(super) fn share_of(request: &AcquireRequest) -> Parts {
    let Access::Shared { limit } = request.access else {
        panic!("not a share")
    };
    let (keys, mut args) = acquire_of(request);
    args.extend([limit.to_string(), LockId::generate().as_str().to_owned()]);
    (keys, args)
}

/// Returns a release with the name of the lock, or by the index alone.
pub(super) fn release_of(request: &AcquireRequest, lock: Option<&str>) -> Parts {
    let mut keys = vec![index_of(request)];
    keys.extend(lock.map(str::to_owned));
    (
        keys,
        [request.lock_id.as_str(), "1000"].map(str::to_owned).into(),
    )
}

fn index_of(request: &AcquireRequest) -> String {
    format!("syncguard:id:{}", request.lock_id.as_str())
}

pub(super) fn together(server: &Server, calls: &[Parts]) -> Vec<Value> {
    let keys: Vec<_> = calls.iter().flat_map(|(keys, _)| keys).collect();
    let mut command = redis::cmd("EVAL");
    command.arg(scripts::TOGETHER.text).arg(keys.len());
    command.arg(keys);
    for (keys, args) in calls {
        let is_share = args.len() == 8;
        let kind = if is_share {
            "share".to_owned()
        } else {
            keys.len().to_string()
        };
        command.arg(kind).arg(args);
    }
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.write_all(&command.get_packed_command()).unwrap();
    let (mut answer, mut bytes) = (Vec::new(), [0; 1024]);
    loop {
        let read = stream.read(&mut bytes).unwrap();
        answer.extend_from_slice(&bytes[..read]);
        match resp::read_value(&answer).unwrap() {
            Some((Value::Array(answers), b"")) => return answers,
            None => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn calls_that_share_a_script_do_what_they_do_alone() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    let [a, b, again, odd] = ["a", "b", "a", "odd"].map(|key| request(key, 30_000));
    let _: () = server.run(&["SADD", "syncguard:odd", "x"]).await;
    let calls = [&a, &b, &again, &odd].map(acquire_of);
    let mut answers = together(&server, &calls).into_iter();
    let mut next = || reply::acquired(answers.next().unwrap());
    assert_eq!(granted(next().unwrap()).0, 1);
    assert_eq!(granted(next().unwrap()).0, 1);
    assert_locked(Via::Connection, next().unwrap(), 29_000..=30_001);
    let Some(Value::ServerError(error)) = answers.next() else {
        panic!("of another type, and no error");
    };
    assert_eq!(error.code(), "WRONGTYPE");

    // A lock that does not exist, a lock of another holder, and one that is released before the next
    // call acquires it.
    let calls = [
        release_of(&odd, None),
        release_of(&again, Some("syncguard:a")),
        release_of(&a, Some("syncguard:a")),
        acquire_of(&again),
        release_of(&b, None),
        release_of(&b, Some("syncguard:b")),
    ];
    let answers = together(&server, &calls);
    let released = [0, 1, 2, 4, 5].map(|call| answers[call].clone());
    assert_eq!(released, [-1, -1, 1, 1, -1].map(Value::Int));
    let (fence, expires_at_ms) = granted(reply::acquired(answers[3].clone()).unwrap());
    assert_eq!(fence, 2);
    let found = backend.lookup(&LookupQuery::LockId(again.lock_id)).await;
    assert_eq!(found.unwrap().unwrap().expires_at_ms, expires_at_ms);
    assert!(!backend.is_locked(&b.key).await.unwrap());
    let left: Vec<String> = server.run(&["KEYS", "syncguard:id:*"]).await;
    assert_eq!(left, [index_of(&again)]);
}

#[tokio::test]
async fn many_requests_in_flight_share_scripts() {
    const CALLERS: usize = 64;
    const ROUNDS: usize = 20;
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    let caller = async |number: usize| {
        for _ in 0..ROUNDS {
            let lock = request(&format!("k{number}"), 30_000);
            granted(backend.acquire(&lock).await.unwrap());
            let released = backend.release(lock.lock_id.into()).await.unwrap();
            assert_eq!(released, ReleaseOutcome::Released);
        }
    };
    join_all((0..CALLERS).map(caller)).await;
    let by_hash = server.info("cmdstat_evalsha:calls=").await;
    let by_text = server.info("cmdstat_eval:calls=").await;
    let requests = 2 * CALLERS * ROUNDS;
    assert!(
        by_hash + by_text < requests / 2,
        "{by_hash} + {by_text} of {requests}"
    );
}
