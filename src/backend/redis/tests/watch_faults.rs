//! Watches whose connection fails or ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::server::{Server, free_port, request};
use super::watch::{NO_PUSH_WITHIN, WAKE_LIMIT, acquire, not_woken, release, watch, woken};
use crate::backend::redis::RedisBackend;
use crate::backend::{Backend, Warnings};

const QUICK: &str = r#","connectTimeoutMs":2000,"operationTimeoutMs":1000"#;

/// Returns the number of connections, without the one that asks.
async fn connections(server: &Server) -> usize {
    let list: String = server.run(&["CLIENT", "LIST"]).await;
    list.lines().count() - 1
}

async fn until_connections(server: &Server, expected: usize) {
    let started = Instant::now();
    while connections(server).await != expected {
        assert!(started.elapsed() < WAKE_LIMIT, "not in time");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Makes the server close the connection that tracks.
async fn kill(server: &Server) {
    for line in server.tracking().await {
        let id = line.split(' ').find_map(|field| field.strip_prefix("id="));
        let killed: u32 = server.run(&["CLIENT", "KILL", "ID", id.unwrap()]).await;
        assert_eq!(killed, 1);
    }
}

#[tokio::test]
async fn a_killed_connection_is_replaced() {
    let server = Server::start(&[]).await;
    let (holder, waiter) = (server.backend(""), server.backend(""));
    let lock = acquire(&holder, "k", 30_000).await;
    let mut watch = watch(&waiter, "k");
    not_woken(&mut watch).await;
    kill(&server).await;
    // A change may have been missed.
    woken(&mut watch).await;
    not_woken(&mut watch).await;
    release(&holder, &lock).await;
    woken(&mut watch).await;

    for _ in 0..5 {
        let lock = acquire(&holder, "k", 30_000).await;
        timeout(NO_PUSH_WITHIN, watch.changed()).await.ok();
        kill(&server).await;
        release(&holder, &lock).await;
        woken(&mut watch).await;
    }
}

#[tokio::test]
async fn a_restarted_server_is_watched_again() {
    let mut server = Server::start(&[]).await;
    let backend = server.backend(QUICK);
    acquire(&backend, "k", 30_000).await;
    let mut waiting = watch(&backend, "k");
    not_woken(&mut waiting).await;
    server.kill();
    not_woken(&mut waiting).await;
    let mut late = watch(&backend, "late");
    not_woken(&mut late).await;
    server.restart().await;
    woken(&mut waiting).await;
    woken(&mut late).await;
    let lock = acquire(&backend, "k", 30_000).await;
    not_woken(&mut waiting).await;
    release(&backend, &lock).await;
    woken(&mut waiting).await;
}

#[tokio::test]
async fn a_server_that_hangs_is_watched_again() {
    let server = Server::start(&[]).await;
    let backend = server.backend(QUICK);
    let lock = acquire(&backend, "k", 30_000).await;
    let mut watch = watch(&backend, "k");
    not_woken(&mut watch).await;
    server.signal("-STOP");
    // Longer than the answer to the next ping may take.
    sleep(Duration::from_secs(3)).await;
    not_woken(&mut watch).await;
    server.signal("-CONT");
    woken(&mut watch).await;
    release(&backend, &lock).await;
    woken(&mut watch).await;
}

#[tokio::test]
async fn an_unreachable_server_wakes_nobody() {
    let port = free_port();
    let backend = super::server::backend(port, QUICK).unwrap();
    not_woken(&mut watch(&backend, "k")).await;
    backend.close().await;
}

/// Returns a backend for the user `limited`, and its warnings.
fn limited(server: &Server, debug: bool) -> (RedisBackend, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let warnings = Warnings::new({
        let heard = Arc::clone(&heard);
        move |text| heard.lock().unwrap().push(text.to_owned())
    });
    let json = format!(
        r#"{{"deployment":{{"kind":"server","node":{{"host":"127.0.0.1","port":{}}}}},
            "login":{{"username":"limited","password":"hunter2","db":3,"clientName":"mine"}}}}"#,
        server.port
    );
    let config = serde_json::from_str(&json).unwrap();
    let backend = RedisBackend::open(config, warnings.with_debug(debug), None).unwrap();
    (backend, heard)
}

async fn allow(server: &Server, rules: &[&str]) {
    let user = ["ACL", "SETUSER", "limited", "on", ">hunter2", "~*"];
    let _: () = server.run(&[&user, rules].concat()).await;
}

#[tokio::test]
async fn waiters_poll_if_the_user_may_not_track() {
    let server = Server::start(&[]).await;
    for (rule, debug) in [("-client", true), ("-client|tracking", false)] {
        allow(&server, &["+@all", rule]).await;
        let (backend, heard) = limited(&server, debug);
        let lock = acquire(&backend, "k", 30_000).await;
        let logins = server.info("cmdstat_auth:calls=").await;
        let mut watch = watch(&backend, "k");
        not_woken(&mut watch).await;
        release(&backend, &lock).await;
        for _ in 0..5 {
            not_woken(&mut watch).await;
        }
        let logins = server.info("cmdstat_auth:calls=").await - logins;
        assert_eq!(logins, 1, "it does not ask again at once");
        assert_eq!(server.tracking().await.len(), 0);
        let notes = heard.lock().unwrap().clone();
        assert_eq!(notes.len(), usize::from(debug), "{notes:?}");
        assert!(!notes.concat().contains("hunter2"));

        allow(&server, &["+@all"]).await;
        let woken = timeout(Duration::from_secs(10), watch.changed()).await;
        woken.expect("the server is asked again");
        assert_eq!(heard.lock().unwrap().len(), usize::from(debug));
    }
}

#[tokio::test]
async fn a_user_needs_few_permissions() {
    let server = Server::start(&[]).await;
    let scripts = [
        "+eval", "+evalsha", "+get", "+set", "+del", "+incr", "+decr", "+time",
    ];
    allow(&server, &scripts).await;
    allow(&server, &["+select", "+client"]).await;
    let (backend, _) = limited(&server, true);
    let lock = acquire(&backend, "k", 30_000).await;
    let mut watch = watch(&backend, "k");
    not_woken(&mut watch).await;
    server.until_tracked(1).await;
    let tracking = server.tracking().await.concat();
    assert!(tracking.contains(" name=mine ") && tracking.contains(" db=3 "));
    release(&backend, &lock).await;
    woken(&mut watch).await;
}

#[tokio::test]
async fn a_server_before_version_6() {
    let server = Server::start(&["--rename-command", "HELLO", ""]).await;
    let backend = server.backend("");
    not_woken(&mut watch(&backend, "k")).await;
    until_connections(&server, 0).await;
}

#[tokio::test]
async fn the_connection_exists_only_while_somebody_watches() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    let lock = acquire(&backend, "k", 30_000).await;
    let mut first = watch(&backend, "k");
    assert_eq!(connections(&server).await, 1, "nobody has asked yet");
    not_woken(&mut first).await;
    until_connections(&server, 2).await;
    drop(first);
    sleep(NO_PUSH_WITHIN).await;
    assert_eq!(connections(&server).await, 2, "the next may come soon");
    until_connections(&server, 1).await;
    let mut second = watch(&backend, "k");
    not_woken(&mut second).await;
    release(&backend, &lock).await;
    woken(&mut second).await;
}

#[tokio::test]
async fn the_connection_ends_with_the_backend() {
    let server = Server::start(&[]).await;
    let closed = server.backend("");
    acquire(&closed, "k", 30_000).await;
    let mut waiting = watch(&closed, "k");
    not_woken(&mut waiting).await;
    closed.close().await;
    until_connections(&server, 0).await;
    not_woken(&mut waiting).await;
    not_woken(&mut watch(&closed, "another")).await;
    assert_eq!(connections(&server).await, 0);

    // Dropping a backend that nobody closed ends the connection, too, even if there are watches.
    let dropped = server.backend("");
    let mut waiting = watch(&dropped, "k");
    not_woken(&mut waiting).await;
    until_connections(&server, 1).await;
    drop(dropped);
    until_connections(&server, 0).await;
    not_woken(&mut waiting).await;
    assert!(
        server
            .backend("")
            .is_locked(&request("k", 1).key)
            .await
            .unwrap()
    );
}
