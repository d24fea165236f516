//! Behind PgBouncer.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, NoTls};

use super::server::{Server, command, free_port, request, unique};
use crate::backend::postgres::PostgresBackend;
use crate::backend::{Backend, Warnings, Watch};

const POOL: usize = 3;
const TIMEOUT: Duration = Duration::from_secs(10);

struct Pooler {
    process: Child,
    directory: PathBuf,
    port: u16,
}

impl Pooler {
    async fn start(server: &Server, settings: &str) -> Self {
        let directory = std::env::temp_dir().join(unique("syncguard-pgbouncer"));
        std::fs::create_dir_all(&directory).unwrap();
        let port = free_port();
        let (config, pid_file) = (directory.join("pgbouncer.ini"), directory.join("pid"));
        let users = directory.join("users.txt");
        std::fs::write(&users, "\"postgres\" \"\"\n").unwrap();
        let text = format!(
            "[databases]\npostgres = host=127.0.0.1 port={} dbname=postgres\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {}\ndefault_pool_size = {POOL}\n\
             pidfile = {}\n{settings}\n",
            server.port,
            users.display(),
            pid_file.display(),
        );
        std::fs::write(&config, text).unwrap();
        make_world_writable(&directory);
        let process = command(&directory, "pgbouncer")
            .args(["-q".as_ref(), config.as_os_str()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pooler = Self {
            process,
            directory,
            port,
        };
        for _ in 0..200 {
            if pooler.try_connect().await.is_some() {
                return pooler;
            }
            sleep(Duration::from_millis(50)).await;
        }
        panic!("pgbouncer does not come up");
    }

    async fn try_connect(&self) -> Option<Client> {
        let target = format!(
            "host=127.0.0.1 port={} user=postgres dbname=postgres",
            self.port
        );
        let (client, connection) = tokio_postgres::connect(&target, NoTls).await.ok()?;
        tokio::spawn(connection);
        Some(client)
    }

    async fn connect(&self) -> Client {
        self.try_connect().await.unwrap()
    }

    /// Counts the channels that any of the pooler's sessions listens to.
    async fn listening(&self) -> i64 {
        let mut looking = JoinSet::new();
        for _ in 0..POOL {
            let client = self.connect().await;
            looking.spawn(async move {
                let sql = "SELECT count(*) || '', pg_sleep(0.1) FROM pg_listening_channels()";
                let answer = client.simple_query(sql).await.unwrap();
                answer
                    .iter()
                    .find_map(|message| match message {
                        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
                        _ => None,
                    })
                    .unwrap()
            });
        }
        looking.join_all().await.iter().sum::<i64>()
    }

    async fn backend(&self, server: &Server) -> PostgresBackend {
        let mut config = server.config();
        config.url = Some(format!(
            "postgres://postgres@127.0.0.1:{}/postgres",
            self.port
        ));
        config.table_name = unique("locks");
        config.fence_table_name = unique("fences");
        let backend = PostgresBackend::open(config, Warnings::new(|_| {})).unwrap();
        backend.setup().await.unwrap();
        backend
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(self.directory.join("pid")).unwrap();
        let _ = Command::new("kill").args(["-QUIT", pid.trim()]).status();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn make_world_writable(directory: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).unwrap();
}

const SESSION_LOCKS: &str =
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2";

async fn is_woken(watch: &mut Box<dyn Watch>, patience: Duration) -> bool {
    timeout(patience, watch.changed()).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_that_shares_sessions_nothing_is_left_on_the_server() {
    let server = Server::start().await;
    for settings in [
        "pool_mode = transaction",
        "pool_mode = transaction\nignore_startup_parameters = options",
        "pool_mode = transaction\nserver_round_robin = 1",
        "pool_mode = statement",
    ] {
        for busy in [false, true] {
            let pooler = Pooler::start(&server, settings).await;
            let backend = pooler.backend(&server).await;
            let held = request("k", 60_000);
            backend.acquire(&held).await.unwrap();

            let stop = Arc::new(AtomicBool::new(!busy));
            let mut others = JoinSet::new();
            for _ in 0..6 {
                let (client, stop) = (pooler.connect().await, Arc::clone(&stop));
                others.spawn(async move {
                    while !stop.load(Ordering::Relaxed) {
                        client.batch_execute("SELECT 1").await.unwrap();
                    }
                });
            }
            let mut watch = backend.watch(&held.key).unwrap();
            assert!(
                !is_woken(&mut watch, Duration::from_secs(4)).await,
                "{settings}"
            );
            stop.store(true, Ordering::Relaxed);
            others.join_all().await;
            assert_eq!(pooler.listening().await, 0, "{settings}, busy: {busy}");
            let locks = server.sql(SESSION_LOCKS).await;
            assert_eq!(locks.as_deref(), Some("0"), "{settings}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_that_keeps_sessions_waiters_are_notified() {
    let server = Server::start().await;
    let pooler = Pooler::start(&server, "pool_mode = session\ndefault_pool_size = 20").await;
    let backend = pooler.backend(&server).await;
    let held = request("k", 60_000);
    backend.acquire(&held).await.unwrap();
    let mut watch = backend.watch(&held.key).unwrap();
    assert!(is_woken(&mut watch, TIMEOUT).await);
    assert_eq!(server.sql(SESSION_LOCKS).await.as_deref(), Some("1"));
    backend.release(held.lock_id.into()).await.unwrap();
    assert!(is_woken(&mut watch, TIMEOUT).await);
    backend.close().await;
    let mut left = server.sql(SESSION_LOCKS).await;
    for _ in 0..500 {
        if left.as_deref() == Some("0") {
            break;
        }
        sleep(Duration::from_millis(10)).await;
        left = server.sql(SESSION_LOCKS).await;
    }
    assert_eq!(left.as_deref(), Some("0"));
}
