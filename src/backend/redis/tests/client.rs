//! Clients of the program: one that sends everything to a real server, and mocks.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use redis::Value;
use serde_json::{Value as Json, json};

use super::server::{Server, connection_of, request, ttl};
use crate::backend::redis::RedisBackend;
use crate::backend::{AcquireOutcome, Backend, ExtendOutcome, LookupQuery, Miss, ReleaseOutcome};
use crate::error::{Error, ErrorCode, Result};
use crate::foreign::Foreign;
use crate::lock::{Key, LockId};

/// Runs each script on the server at `port`. Like some clients, it has a prefix for every key.
pub struct Forward {
    pub port: u16,
    pub prefix: &'static str,
}

impl Foreign for Forward {
    fn ask(&self, question: Json) -> BoxFuture<'static, Result<Json>> {
        assert_eq!(question["op"], "script");
        let url = format!("redis://127.0.0.1:{}", self.port);
        let texts =
            |name: &str| -> Vec<String> { serde_json::from_value(question[name].clone()).unwrap() };
        let mut command = redis::cmd("EVAL");
        let keys = texts("keys");
        command.arg(question["code"].as_str().unwrap());
        command.arg(keys.len());
        for key in keys {
            command.arg(format!("{}{key}", self.prefix));
        }
        command.arg(texts("args"));
        let script = redis::Script::new(question["code"].as_str().unwrap());
        assert_eq!(question["sha"], script.get_hash());
        async move {
            let client = redis::Client::open(url).unwrap();
            let mut connection = connection_of(&client).await;
            Ok(
                match connection.send_packed_command(&command).await.unwrap() {
                    Value::ServerError(error) => {
                        let line =
                            format!("{} {}", error.code(), error.details().unwrap_or_default());
                        json!({ "serverError": line })
                    }
                    value => json!({ "reply": json(value) }),
                },
            )
        }
        .boxed()
    }
}

fn json(value: Value) -> Json {
    match value {
        Value::Nil => Json::Null,
        Value::Int(number) => number.into(),
        Value::BulkString(text) => String::from_utf8_lossy(&text).into(),
        Value::Array(values) => values.into_iter().map(json).collect(),
        other => panic!("a script returned {other:?}"),
    }
}

#[derive(Default)]
struct Mock {
    answers: Mutex<Vec<Result<Json>>>,
    questions: Mutex<Vec<Json>>,
}

impl Foreign for Mock {
    fn ask(&self, question: Json) -> BoxFuture<'static, Result<Json>> {
        self.questions.lock().unwrap().push(question);
        match self.answers.lock().unwrap().pop() {
            Some(answer) => std::future::ready(answer).boxed(),
            None => std::future::pending().boxed(),
        }
    }
}

fn over(client: Arc<dyn Foreign>, config: &str) -> RedisBackend {
    RedisBackend::open_over_client(serde_json::from_str(config).unwrap(), client).unwrap()
}

/// Returns a backend over a client that answers the next call with `answer`.
fn answering(answer: Result<Json>) -> RedisBackend {
    let mock = Mock::default();
    mock.answers.lock().unwrap().push(answer);
    over(Arc::new(mock), "{}")
}

#[tokio::test]
async fn a_mock_gets_the_documented_arguments_and_is_understood() {
    let mock = Arc::new(Mock::default());
    let backend = over(Arc::clone(&mock) as Arc<dyn Foreign>, "{}");
    let lock = request("k/é", 30_000);
    let (id, index) = (
        lock.lock_id.as_str(),
        format!("syncguard:id:{}", lock.lock_id.as_str()),
    );
    let answer = |reply: Json| {
        let answers = &mut *mock.answers.lock().unwrap();
        answers.push(Ok(json!({ "reply": reply })));
    };
    let asked = |name: &str, keys: Json, args: Json| {
        let question = mock.questions.lock().unwrap().pop().unwrap();
        assert_eq!(question["op"], "script");
        assert_eq!(question["name"], name);
        assert_eq!(question["keys"], keys);
        assert_eq!(question["args"], args);
        assert_eq!(question.as_object().unwrap().len(), 6);
    };

    answer(json!([1, "000000000000042", 1_700_000_000_000u64]));
    assert!(matches!(
        backend.acquire(&lock).await.unwrap(),
        AcquireOutcome::Acquired { fence, expires_at_ms: 1_700_000_000_000, .. } if fence.value() == 42
    ));
    asked(
        "acquire",
        json!(["syncguard:k/é", index, "syncguard:fence:syncguard:k/é"]),
        json!([id, "30000", "1000", "syncguard:k/é", "k/é"]),
    );
    answer(json!(0));
    assert_eq!(
        backend.acquire(&lock).await.unwrap(),
        AcquireOutcome::Locked(None)
    );
    for (reply, outcome) in [
        (1, ReleaseOutcome::Released),
        (0, ReleaseOutcome::Missed(Miss::NotFound)),
        (-1, ReleaseOutcome::Missed(Miss::NotFound)),
        (-2, ReleaseOutcome::Missed(Miss::Expired)),
    ] {
        answer(json!(reply));
        assert_eq!(backend.release(lock.lock_id.into()).await.unwrap(), outcome);
        asked("release", json!([index]), json!([id, "1000"]));
    }
    for (reply, outcome) in [
        (json!([1, 5]), ExtendOutcome::Extended { expires_at_ms: 5 }),
        (json!(0), ExtendOutcome::Missed(Miss::NotFound)),
        (json!(-1), ExtendOutcome::Missed(Miss::NotFound)),
        (json!("-2"), ExtendOutcome::Missed(Miss::Expired)),
    ] {
        answer(reply);
        let extended = backend.extend(lock.lock_id, ttl(7000)).await.unwrap();
        assert_eq!(extended, outcome);
        asked("extend", json!([index]), json!([id, "1000", "7000"]));
    }
    answer(json!(format!(
        r#"{{"lockId":"{id}","expiresAtMs":5,"acquiredAtMs":1,"key":"k/é","fence":"000000000000042"}}"#
    )));
    let found = backend.lookup(&LookupQuery::LockId(lock.lock_id)).await;
    assert_eq!(found.unwrap().unwrap().key, "k/é");
    asked("lookup", json!([index]), json!([id, "1000"]));
    answer(Json::Null);
    let found = backend.lookup(&LookupQuery::Key(lock.key.clone())).await;
    assert!(found.unwrap().is_none());
    asked("lookup", json!(["syncguard:k/é"]), json!(["", "1000"]));
    answer(json!(1));
    assert!(backend.is_locked(&lock.key).await.unwrap());
    asked("isLocked", json!(["syncguard:k/é"]), json!([]));
}

#[tokio::test]
async fn an_answer_that_no_client_gives_is_never_a_lock() {
    for answer in [
        json!(null),
        json!(1),
        json!("OK"),
        json!({}),
        json!({ "reply": 1 }),
        json!({ "reply": "1" }),
        json!({ "reply": -1 }),
        json!({ "reply": true }),
        json!({ "reply": 1.5 }),
        json!({ "reply": [7, 1_700_000_000_000u64] }),
        json!({ "reply": [1, 7, 1_700_000_000_000u64] }),
        json!({ "reply": [1, "000000000000007", null] }),
        json!({ "reply": [1, "900000000000001", 5] }),
        json!({ "reply": [[1, "000000000000007", 5]] }),
        json!({ "reply": { "0": 1 } }),
        json!({ "other": 1 }),
    ] {
        let backend = answering(Ok(answer.clone()));
        let error = backend.acquire(&request("k", 1000)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Internal, "{answer}");
        assert!(error.outcome_unknown, "{answer}");
    }
    for answer in [json!({}), json!({ "reply": null })] {
        let nothing = answering(Ok(answer));
        let query = LookupQuery::LockId(LockId::generate());
        assert!(nothing.lookup(&query).await.unwrap().is_none());
    }
    for reply in [json!(null), json!(2), json!("OK"), json!([1])] {
        let answer = || Ok(json!({ "reply": reply }));
        let id = LockId::generate();
        let key = Key::new("k").unwrap();
        let errors = [
            answering(answer()).release(id.into()).await.err(),
            answering(answer()).extend(id, ttl(1)).await.err(),
            answering(answer()).is_locked(&key).await.err(),
            answering(answer()).force_release(&key).await.err(),
        ];
        for error in errors {
            assert_eq!(error.unwrap().code, ErrorCode::Internal, "{reply}");
        }
    }
}

#[tokio::test]
async fn errors_of_the_server_and_of_the_client() {
    for (line, code) in [
        (
            "WRONGTYPE Operation against a key",
            ErrorCode::InvalidArgument,
        ),
        ("READONLY You can't write", ErrorCode::ServiceUnavailable),
        ("NOAUTH Authentication required.", ErrorCode::AuthFailed),
        ("SGFENCE counter out of range", ErrorCode::Internal),
        ("", ErrorCode::Internal),
        ("two\r\nlines", ErrorCode::Internal),
    ] {
        let backend = answering(Ok(json!({ "serverError": line })));
        let error = backend.acquire(&request("k", 1000)).await.unwrap_err();
        assert_eq!(error.code, code, "{line}");
        assert!(!error.outcome_unknown, "{line}: it had no effect");
    }
    let lost = Error::unavailable("The Redis client has no connection").cause("ECONNRESET");
    let backend = answering(Err(lost.clone()));
    let error = backend.acquire(&request("k", 1000)).await.unwrap_err();
    assert_eq!(error, lost.outcome_unknown());
}

#[tokio::test]
async fn a_client_that_does_not_answer_times_out() {
    let backend = over(Arc::new(Mock::default()), r#"{"operationTimeoutMs":100}"#);
    let started = Instant::now();
    let error = backend.acquire(&request("k", 1000)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NetworkTimeout);
    assert!(error.outcome_unknown);
    let took = started.elapsed();
    assert!((Duration::from_millis(100)..Duration::from_secs(3)).contains(&took));
}

#[tokio::test]
async fn options_are_checked() {
    let open = |config: &str| -> Result<RedisBackend> {
        let config = serde_json::from_str(config)
            .map_err(|_| Error::invalid_argument("not the options of a client"))?;
        RedisBackend::open_over_client(config, Arc::new(Mock::default()))
    };
    for bad in [
        r#"{"host":"x"}"#,
        r#"{"keyPrefix":"a:fence"}"#,
        r#"{"operationTimeoutMs":0}"#,
        r#"{"cluster":true,"keyPrefix":"a{"}"#,
    ] {
        let error = open(bad).err().unwrap();
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{bad}");
    }
    let mock = Arc::new(Mock::default());
    let cluster = over(
        Arc::clone(&mock) as Arc<dyn Foreign>,
        r#"{"cluster":true,"keyPrefix":"app","operationTimeoutMs":1}"#,
    );
    let _ = cluster.is_locked(&Key::new("k").unwrap()).await;
    assert_eq!(
        mock.questions.lock().unwrap()[0]["keys"],
        json!(["app:{7xz}:k"])
    );
}

#[tokio::test]
async fn a_client_may_have_its_own_prefix() {
    let server = Server::start(&[]).await;
    let forward = Forward {
        port: server.port,
        prefix: "app*/",
    };
    let backend = over(Arc::new(forward), r#"{"keyPrefix":"locks"}"#);
    let (one, two) = (request("one", 30_000), request("two", 30_000));
    for lock in [&one, &two] {
        backend.acquire(lock).await.unwrap();
    }
    let mut names: Vec<String> = server.run(&["KEYS", "*"]).await;
    assert_eq!(names.len(), 6);
    names.retain(|name| !name.starts_with("app*/locks:"));
    assert!(names.is_empty());
    let page = backend.list(None, 10).await.unwrap();
    assert_eq!(page.locks.len(), 2);
    assert_eq!(
        backend.release(one.lock_id.into()).await.unwrap(),
        ReleaseOutcome::Released
    );
    assert!(backend.force_release(&two.key).await.unwrap());
    let left: u32 = server.run(&["DBSIZE"]).await;
    assert_eq!(left, 2);
}
