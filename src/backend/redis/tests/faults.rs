use std::sync::Arc;
use std::time::{Duration, Instant};

use super::server::{Server, backend, free_port, pour, request, request_to};
use crate::backend::{AcquireOutcome, Backend, ReleaseOutcome};
use crate::error::ErrorCode;

pub(super) const QUICK: &str = r#","connectTimeoutMs":400,"operationTimeoutMs":300"#;

#[tokio::test]
async fn an_unreachable_server_is_unavailable() {
    let backend = backend(free_port(), QUICK).unwrap();
    let started = Instant::now();
    let error = backend.acquire(&request("k", 1000)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ServiceUnavailable);
    assert!(!error.outcome_unknown, "nothing was sent");
    assert!(started.elapsed() < Duration::from_secs(3));
    assert!(error.message.contains(": connection refused."), "{error}");
    let tried = started.elapsed().as_millis();
    let said = error.message.split("Gave up after ").nth(1).unwrap();
    let (ms, option) = said.split_once(" ms (").unwrap();
    assert!((400..=tried).contains(&ms.parse().unwrap()), "{error}");
    assert_eq!(option, "connectTimeoutMs)");
}

#[tokio::test]
async fn messages_name_the_address() {
    let (a, b) = (free_port(), free_port());
    let nodes = format!(r#"[{{"host":"127.0.0.1","port":{a}}},{{"host":"localhost","port":{b}}}]"#);
    let both = format!("127.0.0.1:{a}, localhost:{b}");
    // No server answers at an address of this kind.
    let dark = r#"{"kind":"server","node":{"host":"192.0.2.1","port":6379}}"#.to_owned();
    for (deployment, place) in [
        (dark, "192.0.2.1:6379".to_owned()),
        (
            format!(r#"{{"kind":"server","node":{{"host":"::1","port":{a}}}}}"#),
            format!("[::1]:{a}"),
        ),
        (
            r#"{"kind":"server","node":{"path":"/nowhere/redis.sock"}}"#.to_owned(),
            "/nowhere/redis.sock".to_owned(),
        ),
        (
            format!(r#"{{"kind":"sentinel","name":"m","sentinels":{nodes}}}"#),
            both.clone(),
        ),
        (format!(r#"{{"kind":"cluster","nodes":{nodes}}}"#), both),
    ] {
        let login = r#","login":{"username":"ursula","password":"hunter2"}"#;
        let backend = super::server::deployment(&deployment, &format!("{QUICK}{login}")).unwrap();
        let lock = request_to(&backend, "secret", 1000);
        let error = backend.acquire(&lock).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ServiceUnavailable);
        assert!(error.message.contains(&place), "{}", error.message);
        let text = format!("{error:?}");
        assert!(!text.contains("hunter2") && !text.contains("ursula") && !text.contains("secret"));
    }
}

#[tokio::test]
async fn a_backend_says_why_operations_wait() {
    let port = free_port();
    let backend = Arc::new(backend(port, r#","connectTimeoutMs":60000"#).unwrap());
    assert_eq!(backend.obstacle(), None);
    let waiting = tokio::spawn({
        let backend = Arc::clone(&backend);
        async move { backend.acquire(&request("k", 1000)).await }
    });
    let obstacle = loop {
        match backend.obstacle() {
            Some(obstacle) => break obstacle,
            None => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    assert_eq!(obstacle.code, ErrorCode::ServiceUnavailable);
    assert!(obstacle.message.contains(&port.to_string()));
    assert!(obstacle.message.contains("Trying for "), "{obstacle}");
    let _server = Server::start_on(port, &[]).await;
    waiting.await.unwrap().unwrap();
    assert_eq!(backend.obstacle(), None);
}

/// Starts a peer that sends `answer` over each connection and hangs up, at once or after it has read.
pub(super) async fn peer(reads: bool, says: &'static [u8]) -> u16 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            if reads {
                let _ = stream.read(&mut [0; 1 << 16]).await;
            }
            let _ = stream.write_all(says).await;
        }
    });
    port
}

#[tokio::test]
async fn a_server_that_hangs_up_during_the_greeting_is_unavailable() {
    for (reads, says) in [
        (false, b"".as_slice()),
        (true, b""),
        (true, b"+PO"),
        (true, b"*2\r\n:1\r\n"),
        (true, b"$4\r\nPON"),
        (false, b"-"),
    ] {
        let port = peer(reads, says).await;
        let backend = backend(port, QUICK).unwrap();
        let error = backend.acquire(&request("k", 1000)).await.unwrap_err();
        let said = String::from_utf8_lossy(says);
        assert_eq!(error.code, ErrorCode::ServiceUnavailable, "{said:?}");
        assert!(!error.outcome_unknown);
        assert!(error.message.contains(&port.to_string()), "{error:?}");
    }
}

#[tokio::test]
async fn a_backend_survives_a_restart_of_the_server() {
    let mut server = Server::start(&[]).await;
    let backend = Arc::new(server.backend(QUICK));
    backend.acquire(&request("k", 30_000)).await.unwrap();
    server.signal("-STOP");
    let in_flight: Vec<_> = (0..100)
        .map(|i| {
            let backend = Arc::clone(&backend);
            tokio::spawn(async move { backend.acquire(&request(&format!("k{i}"), 1000)).await })
        })
        .collect();
    // All of them are in flight when the server dies.
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.kill();
    for task in in_flight {
        let error = task.await.unwrap().unwrap_err();
        assert_eq!(error.code, ErrorCode::ServiceUnavailable);
        assert!(error.outcome_unknown);
    }
    let error = backend.acquire(&request("k", 1000)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ServiceUnavailable);
    assert!(!error.outcome_unknown);
    server.restart().await;
    let outcome = backend.acquire(&request("k", 1000)).await.unwrap();
    assert!(matches!(outcome, AcquireOutcome::Acquired { .. }));
}

/// An operation that starts while the server is away succeeds if the server is back in time.
#[tokio::test]
async fn operations_wait_out_a_short_absence() {
    let mut server = Server::start(&[]).await;
    let backend = Arc::new(server.backend(r#","connectTimeoutMs":20000"#));
    let lock = request("k", 30_000);
    backend.acquire(&lock).await.unwrap();
    server.kill();
    let waiting = {
        let backend = Arc::clone(&backend);
        tokio::spawn(async move {
            loop {
                match backend.acquire(&request("k", 1000)).await {
                    // The request was sent before the loss of the connection was noticed.
                    Err(error) if error.outcome_unknown => {}
                    other => return other,
                }
            }
        })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    server.restart().await;
    let outcome = waiting.await.unwrap().unwrap();
    assert!(matches!(outcome, AcquireOutcome::Acquired { .. }));
}

#[tokio::test]
async fn a_silent_server_is_a_timeout() {
    let server = Server::start(&[]).await;
    let backend = server.backend(QUICK);
    let lock = request("k", 30_000);
    backend.acquire(&lock).await.unwrap();
    server.signal("-STOP");
    // The first request finds the old connection silent. The second one gets no greeting on a new one.
    for sent in [true, false] {
        let error = backend.acquire(&request("other", 1000)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::NetworkTimeout);
        assert_eq!(error.outcome_unknown, sent);
    }
    server.signal("-CONT");
    assert_eq!(
        backend.release(lock.lock_id.into()).await.unwrap(),
        ReleaseOutcome::Released
    );
}

#[tokio::test]
async fn a_killed_connection_is_replaced() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    let lock = request("k", 30_000);
    backend.acquire(&lock).await.unwrap();
    let _: u32 = server.run(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    // The server has closed the connection, but the end may not have been read yet.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(backend.is_locked(&lock.key).await.unwrap());
}

#[tokio::test]
async fn wrong_credentials_fail_at_once() {
    let server = Server::start(&["--requirepass", "hunter2"]).await;
    for login in [
        "",
        r#","login":{"password":"wrong"}"#,
        r#","login":{"username":"x","password":"hunter2"}"#,
    ] {
        let started = Instant::now();
        let error = server
            .backend(login)
            .acquire(&request("k", 1000))
            .await
            .unwrap_err();
        assert_eq!(error.code, ErrorCode::AuthFailed);
        assert!(!error.outcome_unknown);
        assert!(!format!("{error:?}").contains("hunter2"));
        assert!(started.elapsed() < Duration::from_secs(3), "told at once");
    }
    let backend = server.backend(r#","login":{"password":"hunter2","db":3}"#);
    backend.acquire(&request("k", 1000)).await.unwrap();
    let error = server
        .backend(r#","login":{"password":"hunter2","db":99}"#)
        .acquire(&request("k", 1000))
        .await
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArgument);
}

#[tokio::test]
async fn a_server_at_a_limit_is_rate_limited() {
    let server = Server::start(&[]).await;
    let first = server.backend("");
    first.acquire(&request("k", 1000)).await.unwrap();
    let _: () = server.run(&["CONFIG", "SET", "maxclients", "1"]).await;
    let error = server
        .backend("")
        .acquire(&request("k", 1000))
        .await
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::RateLimited);

    let server = Server::start(&["--maxmemory", "1", "--maxmemory-policy", "noeviction"]).await;
    let backend = server.backend("");
    let error = backend.acquire(&request("k", 1000)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::RateLimited);
    assert!(!backend.is_locked(&request("k", 1).key).await.unwrap());
}

#[tokio::test]
async fn another_protocol_on_the_port_is_an_error() {
    let port = peer(false, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let error = backend(port, QUICK)
        .unwrap()
        .acquire(&request("k", 1000))
        .await
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::Internal);
}

#[tokio::test]
async fn an_endless_reply_is_not_kept() {
    use std::io::{Read, Write};
    for (start, more) in [
        ("$570000000\r\n", "x"),
        ("+", "x"),
        ("*2000000\r\n", ":1\r\n"),
    ] {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let peer = tokio::task::spawn_blocking(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let greeting = stream.read(&mut [0; 1 << 16]).unwrap();
            assert!(greeting > 0);
            stream.write_all(b"+PONG\r\n").unwrap();
            let request = stream.read(&mut [0; 1 << 16]).unwrap();
            assert!(request > 0);
            pour(&mut stream, start, more)
        });
        // Reading that much takes long on a busy machine.
        let backend = backend(port, r#","operationTimeoutMs":60000"#).unwrap();
        let error = backend.acquire(&request("k", 1000)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Internal);
        assert!(error.outcome_unknown);
        // The buffers of the system accept more than what was read.
        assert!(peer.await.unwrap() < 32 << 20);
    }
}

#[tokio::test]
async fn closing_ends_the_connection() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    backend.acquire(&request("k", 1000)).await.unwrap();
    backend.close().await;
    let error = backend.acquire(&request("k", 1000)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ServiceUnavailable);
    let connected = async || {
        let list: String = server.run(&["CLIENT", "LIST"]).await;
        list.lines().count()
    };
    while connected().await > 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Dropping a backend that nobody closed ends the connection, too.
    let forgotten = server.backend("");
    forgotten.acquire(&request("k2", 1000)).await.unwrap();
    drop(forgotten);
    while connected().await > 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
