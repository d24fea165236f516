//! A real PostgreSQL server, for one test or shared by the tests that run at the same time.

use std::future::poll_fn;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls, SimpleQueryMessage};

use crate::backend::postgres::{PostgresBackend, PostgresConfig};
use crate::backend::{AcquireRequest, Backend, Warnings};
use crate::lock::{Access, Key, LockId, Ttl};

pub struct Server {
    process: Child,
    directory: PathBuf,
    pub port: u16,
}

impl Server {
    /// Returns a server that is shared with the tests that run at the same time.
    pub async fn shared() -> Arc<Self> {
        static SHARED: tokio::sync::Mutex<Weak<Server>> =
            tokio::sync::Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(server) = shared.upgrade() {
            return server;
        }
        let server = Arc::new(Self::start().await);
        *shared = Arc::downgrade(&server);
        server
    }

    pub async fn start() -> Self {
        let directory = std::env::temp_dir().join(unique("syncguard-postgres"));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o777)).unwrap();
        let data = directory.join("data");
        let made = command(&directory, "initdb")
            .args([
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
                "-D",
            ])
            .arg(&data)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success(), "initdb failed");
        let port = free_port();
        let process = spawn(&directory, port);
        let server = Self {
            process,
            directory,
            port,
        };
        server.wait_until_up().await;
        server
    }

    /// Stops the server at once, as in a crash.
    pub fn kill(&mut self) {
        // The pid of the server, not of runuser, which may have started it.
        let pid = std::fs::read_to_string(self.directory.join("data/postmaster.pid")).unwrap();
        let pid = pid.lines().next().unwrap().to_owned();
        assert!(
            Command::new("kill")
                .args(["-QUIT", &pid])
                .status()
                .unwrap()
                .success()
        );
        self.process.wait().unwrap();
    }

    pub async fn restart(&mut self) {
        self.process = spawn(&self.directory, self.port);
        self.wait_until_up().await;
    }

    /// Runs SQL and returns the first column of the last row.
    pub async fn sql(&self, sql: &str) -> Option<String> {
        let target = format!("host=127.0.0.1 port={} user=postgres", self.port);
        let (client, connection) = tokio_postgres::connect(&target, NoTls).await.unwrap();
        let task = tokio::spawn(connection);
        let messages = client.simple_query(sql).await.unwrap();
        drop(client);
        task.await.unwrap().unwrap();
        messages.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    }

    /// Begins a transaction in a session of its own and runs `sql` in it. It ends when this is dropped.
    pub async fn begin_transaction(&self, sql: &str) -> Client {
        let target = format!("host=127.0.0.1 port={} user=postgres", self.port);
        let (client, connection) = tokio_postgres::connect(&target, NoTls).await.unwrap();
        tokio::spawn(connection);
        let begun = client.batch_execute(&format!("BEGIN; {sql}")).await;
        begun.unwrap();
        client
    }

    /// Listens to the notifications about the locks of a table and returns their payloads.
    pub async fn listen(&self, table: &str) -> (mpsc::UnboundedReceiver<String>, Client) {
        let target = format!("host=127.0.0.1 port={} user=postgres", self.port);
        let (client, mut connection) = tokio_postgres::connect(&target, NoTls).await.unwrap();
        let (heard, payloads) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(notification) = message {
                    let _ = heard.send(notification.payload().to_owned());
                }
            }
        });
        let number = self
            .sql(&format!("SELECT '{table}'::regclass::oid"))
            .await
            .unwrap();
        let listen = format!("LISTEN syncguard_{number}");
        client.batch_execute(&listen).await.unwrap();
        (payloads, client)
    }

    pub fn config(&self) -> PostgresConfig {
        PostgresConfig {
            url: Some(format!(
                "postgres://postgres@127.0.0.1:{}/postgres",
                self.port
            )),
            ..PostgresConfig::default()
        }
    }

    /// Opens a backend with tables of its own.
    pub async fn backend(&self, change: impl FnOnce(&mut PostgresConfig)) -> Tables {
        let mut config = self.config();
        config.table_name = unique("locks");
        config.fence_table_name = unique("fences");
        let (locks, fences) = (config.table_name.clone(), config.fence_table_name.clone());
        change(&mut config);
        let backend = PostgresBackend::open(config, Warnings::new(|_| {})).unwrap();
        backend.setup().await.unwrap();
        Tables {
            backend,
            locks,
            fences,
        }
    }

    async fn wait_until_up(&self) {
        let target = format!("host=127.0.0.1 port={} user=postgres", self.port);
        for _ in 0..600 {
            if tokio_postgres::connect(&target, NoTls).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("postgres does not come up");
    }
}

pub struct Tables {
    pub backend: PostgresBackend,
    pub locks: String,
    pub fences: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            self.kill();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn spawn(directory: &Path, port: u16) -> Child {
    let mut settings = Vec::new();
    for setting in [
        format!("port={port}"),
        format!("unix_socket_directories={}", directory.display()),
        "listen_addresses=127.0.0.1".to_owned(),
        "fsync=off".to_owned(),
    ] {
        settings.extend(["-c".to_owned(), setting]);
    }
    command(directory, "postgres")
        .arg("-D")
        .arg(directory.join("data"))
        .args(settings)
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Prepares a command. It runs as the user postgres if we are root, because the server refuses to.
pub fn command(directory: &Path, program: &str) -> Command {
    let program = find(program);
    let mut command = if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir(directory);
    command
}

/// Debian keeps the server's programs out of the PATH.
fn find(program: &str) -> PathBuf {
    let mut versions: Vec<_> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    versions.sort();
    versions
        .iter()
        .map(|version| version.join("bin").join(program))
        .rfind(|path| path.exists())
        .unwrap_or_else(|| PathBuf::from(program))
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

pub fn unique(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{name}_{}_{count}", std::process::id())
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
