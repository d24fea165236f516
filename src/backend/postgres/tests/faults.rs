use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::server::{Server, request, ttl};
use crate::backend::postgres::PostgresBackend;
use crate::backend::postgres::sql::ADVISORY_LOCK_CLASS;
use crate::backend::{AcquireOutcome, Backend, ReleaseOutcome, Warnings};
use crate::error::ErrorCode;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_is_reported_and_found_again() {
    let mut server = Server::start().await;
    let mut config = server.config();
    config.connect_timeout_ms = Some(500);
    let backend = Arc::new(PostgresBackend::open(config, Warnings::new(|_| {})).unwrap());
    server.kill();
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let backend = Arc::clone(&backend);
            tokio::spawn(async move { backend.acquire(&request("k", 1000)).await.unwrap_err() })
        })
        .collect();
    for task in tasks {
        let error = task.await.unwrap();
        assert_eq!(
            (error.code, error.outcome_unknown),
            (ErrorCode::ServiceUnavailable, false)
        );
        let why = format!(
            "PostgreSQL at 127.0.0.1:{}: connection refused",
            server.port
        );
        assert!(error.message.contains(&why), "{error}");
        assert!(error.message.contains("Gave up after "), "{error}");
    }
    assert_eq!(
        backend.obstacle().unwrap().code,
        ErrorCode::ServiceUnavailable
    );
    server.restart().await;
    backend.setup().await.unwrap();
    backend.is_locked(&request("k", 1).key).await.unwrap();
    assert_eq!(backend.obstacle(), None);
}

/// What a server answers, message by message, before it hangs up.
const UNFINISHED: [&[&[u8]]; 7] = [
    &[],
    &[b""],
    &[b"S", b"\x16\x03"],
    &[b"N", b""],
    &[b"N", b"R\0\0"],
    &[b"N", b"R\0\0\0\x08\0\0\0\0"],
    &[b"N", b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", b""],
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_up_during_the_login_is_unavailable() {
    for answers in UNFINISHED {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let fake = tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                for answer in answers {
                    let _ = socket.read(&mut [0; 1000]).await;
                    let _ = socket.write_all(answer).await;
                }
            }
        });
        let config = serde_json::from_str(&format!(
            r#"{{"url":"postgres://u:s3cret@127.0.0.1:{port}/d","connectTimeoutMs":300}}"#
        ));
        let backend = PostgresBackend::open(config.unwrap(), Warnings::new(|_| {})).unwrap();
        let error = backend.acquire(&request("k", 1000)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ServiceUnavailable, "{answers:?}");
        assert!(error.message.contains(&format!("127.0.0.1:{port}")));
        assert!(!format!("{error:?}").contains("s3cret"));
        fake.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn works_again_after_a_restart_and_after_termination() {
    let mut server = Server::start().await;
    let t = server.backend(|_| {}).await;
    let held = request("held", 600_000);
    t.backend.acquire(&held).await.unwrap();
    server.kill();
    let error = t.backend.acquire(&request("k", 1000)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ServiceUnavailable);
    server.restart().await;
    // The fence counter and the lock have survived.
    assert!(matches!(
        t.backend.acquire(&request("held", 1000)).await.unwrap(),
        AcquireOutcome::Locked(Some(_))
    ));

    server
        .sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = 'postgres'")
        .await;
    // An operation that meets the dying connection fails with the right code; the next one works.
    let mut outcome = t.backend.extend(held.lock_id, ttl(600_000)).await;
    for _ in 0..10 {
        if let Err(error) = &outcome {
            assert_eq!(error.code, ErrorCode::ServiceUnavailable);
            outcome = t.backend.extend(held.lock_id, ttl(600_000)).await;
        }
    }
    outcome.unwrap();
    assert_eq!(
        t.backend.release(held.lock_id.into()).await.unwrap(),
        ReleaseOutcome::Released
    );
}

/// Another session holds the advisory lock. The server gives up in time and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_an_advisory_lock_times_out_with_a_known_outcome() {
    let server = Server::shared().await;
    for prepare in [true, false] {
        let t = server
            .backend(|config| {
                config.prepare = prepare;
                config.operation_timeout_ms = 1000;
            })
            .await;
        let target = format!("host=127.0.0.1 port={} user=postgres", server.port);
        let (blocker, connection) = tokio_postgres::connect(&target, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        let key = format!("blocked {prepare}");
        blocker
            .batch_execute(&format!(
                "BEGIN; SELECT pg_advisory_xact_lock({ADVISORY_LOCK_CLASS}, hashtext('{key}'))"
            ))
            .await
            .unwrap();
        let started = Instant::now();
        let error = t.backend.acquire(&request(&key, 60_000)).await.unwrap_err();
        assert_eq!(
            (error.code, error.outcome_unknown),
            (ErrorCode::NetworkTimeout, false)
        );
        // 57014 if less time was left than lock_timeout.
        let sqlstate = &error.details[0].1;
        assert!(sqlstate == "55P03" || sqlstate == "57014", "{error:?}");
        assert!(started.elapsed() >= Duration::from_millis(600));
        blocker.batch_execute("COMMIT").await.unwrap();
        let again = t.backend.acquire(&request(&key, 60_000)).await.unwrap();
        assert!(matches!(again, AcquireOutcome::Acquired { .. }));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_a_busy_pool_times_out() {
    let server = Server::shared().await;
    let t = server
        .backend(|config| {
            config.pool_size = Some(1);
            config.operation_timeout_ms = 1500;
        })
        .await;
    // Connect and prepare now, so that the first request below gets the connection at once.
    t.backend.acquire(&request("warm", 1000)).await.unwrap();
    let blocker = server
        .begin_transaction(&format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", t.locks))
        .await;
    let backend = Arc::new(t.backend);
    let codes: Vec<_> = (0..20)
        .map(|_| {
            let backend = Arc::clone(&backend);
            tokio::spawn(async move { backend.acquire(&request("k", 1000)).await.unwrap_err() })
        })
        .collect();
    for task in codes {
        assert_eq!(task.await.unwrap().code, ErrorCode::NetworkTimeout);
    }
    blocker.batch_execute("ROLLBACK").await.unwrap();
    assert!(matches!(
        backend.acquire(&request("k", 1000)).await.unwrap(),
        AcquireOutcome::Acquired { .. }
    ));
}

/// The server accepts connections and never answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_a_timeout() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let silent = tokio::spawn(async move {
        let mut kept = Vec::new();
        loop {
            kept.push(listener.accept().await.unwrap());
        }
    });
    let config = serde_json::from_str(&format!(
        r#"{{"url":"postgres://u@127.0.0.1:{port}/d","connectTimeoutMs":300,"operationTimeoutMs":600}}"#
    ))
    .unwrap();
    let backend = PostgresBackend::open(config, Warnings::new(|_| {})).unwrap();
    let error = backend.acquire(&request("k", 1000)).await.unwrap_err();
    assert_eq!(
        (error.code, error.outcome_unknown),
        (ErrorCode::NetworkTimeout, false)
    );
    assert_eq!(
        backend.setup().await.unwrap_err().code,
        ErrorCode::NetworkTimeout
    );
    silent.abort();
}

/// The listener's queue is full, so the kernel drops packets that want to connect, as a firewall does.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_drops_packets_is_reported_and_leaves_time_for_the_next() {
    use socket2::{Domain, Socket, Type};

    let server = Server::shared().await;
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    full.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .unwrap();
    full.listen(0).unwrap();
    let address = full.local_addr().unwrap().as_socket().unwrap();
    let mut queued = Vec::new();
    for _ in 0..4 {
        let connecting = tokio::net::TcpStream::connect(address);
        queued.extend(tokio::time::timeout(Duration::from_millis(200), connecting).await);
    }
    let open = |hosts: String| {
        let config = serde_json::from_str(&format!(
            r#"{{"url":"postgres://postgres@{hosts}/postgres","connectTimeoutMs":4000}}"#
        ));
        PostgresBackend::open(config.unwrap(), Warnings::new(|_| {})).unwrap()
    };
    let error = open(address.to_string()).setup().await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ServiceUnavailable);
    let said = format!("Cannot connect to PostgreSQL at {address}: timed out");
    assert!(error.message.starts_with(&said), "{error}");
    assert!(error.message.contains("Gave up after "), "{error}");
    let other = format!("127.0.0.1:{}", server.port);
    open(format!("{address},{other}")).setup().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_errors_have_the_right_code() {
    let server = Server::start().await;
    server.sql("CREATE ROLE one LOGIN CONNECTION LIMIT 0").await;
    let mut config = server.config();
    config.url = Some(format!("postgres://one@127.0.0.1:{}/postgres", server.port));
    let error = PostgresBackend::open(config, Warnings::new(|_| {}))
        .unwrap()
        .is_locked(&request("k", 1).key)
        .await
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::RateLimited);
    assert_eq!(error.details, [("sqlstate", "53300".into())]);

    let mut config = server.config();
    config.url = Some(format!(
        "postgres://postgres:s3cret@127.0.0.1:{}/nowhere",
        server.port
    ));
    let error = PostgresBackend::open(config, Warnings::new(|_| {}))
        .unwrap()
        .is_locked(&request("k", 1).key)
        .await
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArgument);
    assert!(!format!("{error:?}").contains("s3cret"));

    let mut config = server.config();
    config.url = Some(format!(
        "postgres://nobody:s3cret@127.0.0.1:{}/postgres",
        server.port
    ));
    let error = PostgresBackend::open(config, Warnings::new(|_| {}))
        .unwrap()
        .is_locked(&request("k", 1).key)
        .await
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::AuthFailed);
    assert!(!format!("{error:?}").contains("s3cret"));
}
