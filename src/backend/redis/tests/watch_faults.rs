//! Watches whose connection has trouble, or ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::server::{Server, free_port, request};
use super::watch::{A_WHILE, SOON, acquire, not_told, release, told, watch};
use crate::backend::redis::RedisBackend;
use crate::backend::{Backend, Warnings};

const QUICK: &str = r#","connectTimeoutMs":2000,"operationTimeoutMs":1000"#;

/// How many connections there are, but for the one that asks.
async fn connections(server: &Server) -> usize {
    let list: String = server.run(&["CLIENT", "LIST"]).await;
    list.lines().count() - 1
}

async fn until_connections(server: &Server, expected: usize) {
    let started = Instant::now();
    while connections(server).await != expected {
        assert!(started.elapsed() < SOON, "not in time");
        sleep(Duration::from_millis(10)).await;
    }
}

/// The server closes the connection that tracks.
async fn kill(server: &Server) {
    for line in server.tracking().await {
        let id = line.split(' ').find_map(|field| field.strip_prefix("id="));
        let killed: u32 = server.run(&["CLIENT", "KILL", "ID", id.unwrap()]).await;
        assert_eq!(killed, 1);
    }
}

#[tokio::test]
async fn a_killed_connection() {
    let server = Server::start(&[]).await;
    let (holder, waiter) = (server.backend(""), server.backend(""));
    let lock = acquire(&holder, "k", 30_000).await;
    let mut watch = watch(&waiter, "k");
    not_told(&mut watch).await;
    kill(&server).await;
    // Something may have been missed.
    told(&mut watch).await;
    not_told(&mut watch).await;
    release(&holder, &lock).await;
    told(&mut watch).await;

    for _ in 0..5 {
        let lock = acquire(&holder, "k", 30_000).await;
        timeout(A_WHILE, watch.changed()).await.ok();
        kill(&server).await;
        release(&holder, &lock).await;
        told(&mut watch).await;
    }
}

#[tokio::test]
async fn a_restarted_server() {
    let mut server = Server::start(&[]).await;
    let backend = server.backend(QUICK);
    acquire(&backend, "k", 30_000).await;
    let mut waiting = watch(&backend, "k");
    not_told(&mut waiting).await;
    server.kill();
    not_told(&mut waiting).await;
    let mut late = watch(&backend, "late");
    not_told(&mut late).await;
    server.restart().await;
    told(&mut waiting).await;
    told(&mut late).await;
    let lock = acquire(&backend, "k", 30_000).await;
    not_told(&mut waiting).await;
    release(&backend, &lock).await;
    told(&mut waiting).await;
}

#[tokio::test]
async fn a_server_that_hangs() {
    let server = Server::start(&[]).await;
    let backend = server.backend(QUICK);
    let lock = acquire(&backend, "k", 30_000).await;
    let mut watch = watch(&backend, "k");
    not_told(&mut watch).await;
    server.signal("-STOP");
    // Longer than the next sign of life may take.
    sleep(Duration::from_secs(3)).await;
    not_told(&mut watch).await;
    server.signal("-CONT");
    told(&mut watch).await;
    release(&backend, &lock).await;
    told(&mut watch).await;
}

#[tokio::test]
async fn nobody_there() {
    let port = free_port();
    let backend = super::server::backend(port, QUICK).unwrap();
    not_told(&mut watch(&backend, "k")).await;
    backend.close().await;
}

/// A backend for the user `limited`, and what it warns of.
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
async fn where_it_is_not_allowed_waiters_poll() {
    let server = Server::start(&[]).await;
    for (rule, debug) in [("-client", true), ("-client|tracking", false)] {
        allow(&server, &["+@all", rule]).await;
        let (backend, heard) = limited(&server, debug);
        let lock = acquire(&backend, "k", 30_000).await;
        let logins = server.info("cmdstat_auth:calls=").await;
        let mut watch = watch(&backend, "k");
        not_told(&mut watch).await;
        release(&backend, &lock).await;
        for _ in 0..5 {
            not_told(&mut watch).await;
        }
        let logins = server.info("cmdstat_auth:calls=").await - logins;
        assert_eq!(logins, 1, "it does not ask again at once");
        assert_eq!(server.tracking().await.len(), 0);
        let notes = heard.lock().unwrap().clone();
        assert_eq!(notes.len(), usize::from(debug), "{notes:?}");
        assert!(!notes.concat().contains("hunter2"));

        allow(&server, &["+@all"]).await;
        let told = timeout(Duration::from_secs(10), watch.changed()).await;
        told.expect("it asks again some time");
        assert_eq!(heard.lock().unwrap().len(), usize::from(debug));
    }
}

#[tokio::test]
async fn as_a_user_who_may_do_little_else() {
    let server = Server::start(&[]).await;
    let scripts = [
        "+eval", "+evalsha", "+get", "+set", "+del", "+incr", "+decr", "+time",
    ];
    allow(&server, &scripts).await;
    allow(&server, &["+select", "+client"]).await;
    let (backend, _) = limited(&server, true);
    let lock = acquire(&backend, "k", 30_000).await;
    let mut watch = watch(&backend, "k");
    not_told(&mut watch).await;
    server.until_tracked(1).await;
    let tracking = server.tracking().await.concat();
    assert!(tracking.contains(" name=mine ") && tracking.contains(" db=3 "));
    release(&backend, &lock).await;
    told(&mut watch).await;
}

#[tokio::test]
async fn a_server_before_version_6() {
    let server = Server::start(&["--rename-command", "HELLO", ""]).await;
    let backend = server.backend("");
    not_told(&mut watch(&backend, "k")).await;
    until_connections(&server, 0).await;
}

#[tokio::test]
async fn a_connection_only_while_somebody_watches() {
    let server = Server::start(&[]).await;
    let backend = server.backend("");
    let lock = acquire(&backend, "k", 30_000).await;
    let mut first = watch(&backend, "k");
    assert_eq!(connections(&server).await, 1, "nobody has asked yet");
    not_told(&mut first).await;
    until_connections(&server, 2).await;
    drop(first);
    sleep(A_WHILE).await;
    assert_eq!(connections(&server).await, 2, "the next may come soon");
    until_connections(&server, 1).await;
    let mut second = watch(&backend, "k");
    not_told(&mut second).await;
    release(&backend, &lock).await;
    told(&mut second).await;
}

#[tokio::test]
async fn it_ends_with_the_backend() {
    let server = Server::start(&[]).await;
    let closed = server.backend("");
    acquire(&closed, "k", 30_000).await;
    let mut waiting = watch(&closed, "k");
    not_told(&mut waiting).await;
    closed.close().await;
    until_connections(&server, 0).await;
    not_told(&mut waiting).await;
    not_told(&mut watch(&closed, "another")).await;
    assert_eq!(connections(&server).await, 0);

    // Also with one that nobody closed, while there are watches.
    let dropped = server.backend("");
    let mut waiting = watch(&dropped, "k");
    not_told(&mut waiting).await;
    until_connections(&server, 1).await;
    drop(dropped);
    until_connections(&server, 0).await;
    not_told(&mut waiting).await;
    assert!(
        server
            .backend("")
            .is_locked(&request("k", 1).key)
            .await
            .unwrap()
    );
}
