//! Watches over every kind of connection, and after another server took over.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};

use super::server::{Server, free_port};
use super::watch::{acquire, not_woken, release, watch, woken};
use crate::backend::Warnings;
use crate::backend::redis::RedisBackend;

fn open(json: &str) -> RedisBackend {
    let config = serde_json::from_str(json).unwrap();
    RedisBackend::open(config, Warnings::new(|text| panic!("{text}")), None).unwrap()
}

async fn woken_by_a_release(backend: &RedisBackend) {
    let lock = acquire(backend, "k", 30_000).await;
    let mut watch = watch(backend, "k");
    not_woken(&mut watch).await;
    release(backend, &lock).await;
    woken(&mut watch).await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket() {
    let path = std::env::temp_dir().join(format!("syncguard-watch-{}.sock", std::process::id()));
    let path = path.to_str().unwrap();
    let _server = Server::start(&["--unixsocket", path]).await;
    let node = format!(r#"{{"kind":"server","node":{{"path":"{path}"}}}}"#);
    woken_by_a_release(&open(&format!(r#"{{"deployment":{node}}}"#))).await;
}

#[tokio::test]
async fn tls() {
    let directory = std::env::temp_dir().join(format!("syncguard-watch-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let (cert, key, port) = (file("cert"), file("key"), free_port());
    let made = Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-subj", "/CN=localhost"])
        .args(["-newkey", "rsa:2048", "-out", &cert, "-keyout", &key])
        .output();
    assert!(made.unwrap().status.success());
    let _server = Server::start(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &cert,
        "--tls-auth-clients",
        "no",
    ])
    .await;
    let node = format!(r#"{{"kind":"server","node":{{"host":"localhost","port":{port}}}}}"#);
    let tls = r#"{"rejectUnauthorized":false}"#;
    woken_by_a_release(&open(&format!(r#"{{"deployment":{node},"tls":{tls}}}"#))).await;
    std::fs::remove_dir_all(directory).unwrap();
}

/// Answers every question about the master with the current port.
async fn sentinel(master: Arc<AtomicU16>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let master = Arc::clone(&master);
            tokio::spawn(async move {
                let mut bytes = [0; 1024];
                while let Ok(read @ 1..) = stream.read(&mut bytes).await {
                    let asked = String::from_utf8_lossy(&bytes[..read]).contains("SENTINEL");
                    let port = master.load(Ordering::SeqCst).to_string();
                    let answer = match asked {
                        true => format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len()),
                        false => "+PONG\r\n".to_owned(),
                    };
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn a_watch_follows_a_failover() {
    let mut first = Server::start(&[]).await;
    let second = Server::start(&[]).await;
    let master = Arc::new(AtomicU16::new(first.port));
    let sentinel = sentinel(Arc::clone(&master)).await;
    let backend = open(&format!(
        r#"{{"deployment":{{"kind":"sentinel","name":"m","sentinels":[{{"host":"127.0.0.1","port":{sentinel}}}]}}}}"#
    ));
    acquire(&backend, "k", 30_000).await;
    let mut watch = watch(&backend, "k");
    not_woken(&mut watch).await;
    first.kill();
    not_woken(&mut watch).await;
    master.store(second.port, Ordering::SeqCst);
    woken(&mut watch).await;
    assert_eq!(second.tracking().await.len(), 1);
    let lock = acquire(&backend, "k", 30_000).await;
    not_woken(&mut watch).await;
    release(&backend, &lock).await;
    woken(&mut watch).await;
}

/// Starts two nodes of a cluster, of which the first has all slots.
async fn cluster() -> [Server; 2] {
    let buses = [free_port(), free_port()].map(|port| port.to_string());
    let node = |bus| ["--cluster-enabled", "yes", "--cluster-port", bus];
    let first = Server::start(&node(&buses[0])).await;
    let second = Server::start(&node(&buses[1])).await;
    let _: () = first.run(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
    let port = second.port.to_string();
    let _: () = first
        .run(&["CLUSTER", "MEET", "127.0.0.1", &port, &buses[1]])
        .await;
    for server in [&first, &second] {
        let started = Instant::now();
        loop {
            let info: String = server.run(&["CLUSTER", "INFO"]).await;
            if info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2") {
                break;
            }
            assert!(started.elapsed() < Duration::from_secs(30), "{info}");
            sleep(Duration::from_millis(20)).await;
        }
    }
    [first, second]
}

#[tokio::test]
async fn a_watch_follows_a_slot() {
    let [first, second] = cluster().await;
    let backend = open(&format!(
        r#"{{"deployment":{{"kind":"cluster","nodes":[{{"host":"127.0.0.1","port":{}}}]}},"keyPrefix":"{{t}}"}}"#,
        first.port
    ));
    let lock = acquire(&backend, "k", 30_000).await;
    let mut watch = watch(&backend, "k");
    not_woken(&mut watch).await;

    let slot: u16 = first.run(&["CLUSTER", "KEYSLOT", "{t}"]).await;
    let slot = slot.to_string();
    let from: String = first.run(&["CLUSTER", "MYID"]).await;
    let to: String = second.run(&["CLUSTER", "MYID"]).await;
    let _: () = second
        .run(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from])
        .await;
    let _: () = first
        .run(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to])
        .await;
    let keys: Vec<String> = first.run(&["CLUSTER", "GETKEYSINSLOT", &slot, "10"]).await;
    assert_eq!(keys.len(), 3);
    let port = second.port.to_string();
    let mut migrate = redis::cmd("MIGRATE");
    migrate.arg("127.0.0.1").arg(&port).arg("").arg(0).arg(5000);
    let _: () = first.query(migrate.arg("KEYS").arg(&keys)).await;
    for server in [&second, &first] {
        let _: () = server
            .run(&["CLUSTER", "SETSLOT", &slot, "NODE", &to])
            .await;
    }

    woken(&mut watch).await;
    let started = Instant::now();
    while second.tracking().await.is_empty() {
        assert!(started.elapsed() < Duration::from_secs(5), "not in time");
        sleep(Duration::from_millis(10)).await;
    }
    // A change may have been missed meanwhile.
    timeout(Duration::from_millis(150), watch.changed())
        .await
        .ok();
    not_woken(&mut watch).await;
    release(&backend, &lock).await;
    woken(&mut watch).await;
}
