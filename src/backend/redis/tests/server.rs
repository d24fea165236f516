//! A real redis-server for one test.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue};

use super::client::Forward;
use crate::backend::redis::RedisBackend;
use crate::backend::{AcquireRequest, Backend, ReleaseRequest, Warnings};
use crate::error::Result;
use crate::lock::{Access, Key, LockId, Ttl};

/// The driver gives up after half a second by default, which is too short on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

pub async fn connection_of(client: &Client) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .unwrap()
}

/// How a backend reaches the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Via {
    Connection,
    Client,
}

impl Via {
    pub fn backend(self, server: &Server, more: &str) -> RedisBackend {
        match self {
            Self::Connection => server.backend(more),
            Self::Client => {
                let config = format!("{{{}}}", more.trim_start_matches(','));
                let forward = Forward {
                    port: server.port,
                    prefix: "",
                };
                RedisBackend::open_over_client(
                    serde_json::from_str(&config).unwrap(),
                    Arc::new(forward),
                )
                .unwrap()
            }
        }
    }
}

/// Runs each of these tests over a connection of ours and over a client.
macro_rules! over_both {
    ($($test:ident),+ $(,)?) => {
        mod over_connection {
            use super::*;
            $(#[tokio::test]
            async fn $test() {
                super::$test(Via::Connection).await;
            })+
        }
        mod over_client {
            use super::*;
            $(#[tokio::test]
            async fn $test() {
                super::$test(Via::Client).await;
            })+
        }
    };
}
pub(super) use over_both;

pub struct Server {
    process: Child,
    directory: PathBuf,
    args: Vec<String>,
    pub port: u16,
}

impl Server {
    pub async fn start(args: &[&str]) -> Self {
        Self::start_on(free_port(), args).await
    }

    pub async fn start_on(port: u16, args: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "syncguard-redis-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let args: Vec<String> = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"]
            .iter()
            .chain(args)
            .map(ToString::to_string)
            .chain(["--port".to_owned(), port.to_string()])
            .collect();
        let process = spawn(&directory, &args);
        let server = Self {
            process,
            directory,
            args,
            port,
        };
        server.until_up().await;
        server
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub async fn restart(&mut self) {
        self.process = spawn(&self.directory, &self.args);
        self.until_up().await;
    }

    pub fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(sent.success());
    }

    pub async fn query<T: FromRedisValue>(&self, command: &Cmd) -> T {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        let mut connection = connection_of(&client).await;
        command.query_async(&mut connection).await.unwrap()
    }

    /// Runs a command that consists of these words.
    pub async fn run<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        self.query(&command).await
    }

    pub fn backend(&self, more: &str) -> RedisBackend {
        backend(self.port, more).unwrap()
    }

    async fn until_up(&self) {
        for _ in 0..500 {
            let stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await;
            if stream.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("redis-server does not come up");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn spawn(directory: &PathBuf, args: &[String]) -> Child {
    Command::new("redis-server")
        .args(args)
        .current_dir(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server must be installed for these tests")
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Returns a backend for a server on this port. `more` is JSON, as in `,"keyPrefix":"x"`.
pub fn backend(port: u16, more: &str) -> Result<RedisBackend> {
    let server = format!(r#"{{"kind":"server","node":{{"host":"127.0.0.1","port":{port}}}}}"#);
    deployment(&server, more)
}

/// Returns a backend for a deployment, which is JSON, too.
pub fn deployment(deployment: &str, more: &str) -> Result<RedisBackend> {
    let json = format!(r#"{{"deployment":{deployment}{more}}}"#);
    RedisBackend::open(
        serde_json::from_str(&json).unwrap(),
        Warnings::new(|text| panic!("{text}")),
        None,
    )
}

pub fn ttl(ms: u32) -> Ttl {
    Ttl::from_number(f64::from(ms)).unwrap()
}

pub fn request(key: &str, ms: u32) -> AcquireRequest {
    AcquireRequest {
        key: Key::new(key).unwrap(),
        lock_id: LockId::generate(),
        ttl: ttl(ms),
        label: None,
        caller: 0,
        access: Access::Exclusive,
        mark: None,
    }
}

/// Like `request`, with a lockId that belongs to the shard of the key.
pub fn request_to(backend: &RedisBackend, key: &str, ms: u32) -> AcquireRequest {
    let request = request(key, ms);
    AcquireRequest {
        lock_id: backend
            .capabilities()
            .lock_id_for(&request.key, request.access, request.lock_id),
        ..request
    }
}

/// Writes `start`, then repeats `more`. Returns how many bytes of half a gigabyte were accepted.
pub fn pour(stream: &mut TcpStream, start: &str, more: &str) -> usize {
    stream
        .set_write_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let more = more.repeat((1 << 16) / more.len());
    let mut written = stream.write(start.as_bytes()).unwrap();
    while written < 1 << 29 {
        match stream.write(more.as_bytes()) {
            Ok(bytes) => written += bytes,
            Err(_) => break,
        }
    }
    written
}

/// Returns a release by a caller that knows the lock's key.
pub fn keyed(lock: &AcquireRequest) -> ReleaseRequest {
    ReleaseRequest {
        lock_id: lock.lock_id,
        key: Some(lock.key.clone()),
    }
}
