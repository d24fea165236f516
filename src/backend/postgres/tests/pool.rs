//! How many connections there are, and when they are closed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_postgres::NoTls;

use super::server::{Server, request, unique};
use crate::backend::postgres::connection::{Connection, first_of, ignore_notifications};
use crate::backend::postgres::{PostgresBackend, PostgresConfig};
use crate::backend::{AcquireOutcome, Backend, ReleaseOutcome, Warnings};

struct Setup {
    server: Arc<Server>,
    backend: Arc<PostgresBackend>,
    application_name: String,
}

impl Setup {
    async fn new(change: impl FnOnce(&mut PostgresConfig)) -> Self {
        let server = Server::shared().await;
        let mut config = server.config();
        let application_name = unique("pool");
        let parameter = ("application_name".to_owned(), application_name.clone());
        config.params.extend([parameter]);
        config.table_name = unique("locks");
        config.fence_table_name = unique("fences");
        change(&mut config);
        let backend = PostgresBackend::open(config, Warnings::new(|_| {})).unwrap();
        backend.setup().await.unwrap();
        Self {
            server,
            backend: Arc::new(backend),
            application_name,
        }
    }

    async fn acquire_and_release(&self) {
        let request = request("k", 60_000);
        let acquired = self.backend.acquire(&request).await.unwrap();
        assert!(matches!(acquired, AcquireOutcome::Acquired { .. }));
        let released = self.backend.release(request.lock_id.into()).await.unwrap();
        assert_eq!(released, ReleaseOutcome::Released);
    }

    async fn connections(&self) -> u32 {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}'",
            self.application_name
        );
        self.server.sql(&sql).await.unwrap().parse().unwrap()
    }

    async fn wait_for_connections(&self, count: u32) {
        timeout(Duration::from_secs(5), async {
            while self.connections().await != count {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .unwrap();
    }

    async fn terminate_connections(&self) {
        let sql = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE application_name = '{}'",
            self.application_name
        );
        self.server.sql(&sql).await;
        self.wait_for_connections(0).await;
        // Gives the pool time to notice.
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequential_requests_share_one_connection() {
    for pool_size in [1, 2, 3, 4, 10] {
        let t = Setup::new(|config| config.pool_size = Some(pool_size)).await;
        for _ in 0..20 {
            t.acquire_and_release().await;
        }
        // The connection that created the tables may still be closing.
        t.wait_for_connections(1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_use_at_most_pool_size_connections() {
    let t = Setup::new(|config| config.pool_size = Some(4)).await;
    t.wait_for_connections(0).await;
    let tasks: Vec<_> = (0..40)
        .map(|index| {
            let backend = Arc::clone(&t.backend);
            tokio::spawn(async move {
                let request = request(&format!("k{index}"), 60_000);
                backend.acquire(&request).await.unwrap();
                backend.release(request.lock_id.into()).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let connections = t.connections().await;
    assert!((1..=4).contains(&connections), "{connections}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_the_server_closes_are_replaced() {
    let t = Setup::new(|_| {}).await;
    for _ in 0..2 {
        for _ in 0..20 {
            t.acquire_and_release().await;
        }
        t.wait_for_connections(1).await;
        t.terminate_connections().await;
    }
    t.acquire_and_release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_closed_when_idle_and_with_the_backend() {
    let t = Setup::new(|config| config.idle_timeout_ms = 200).await;
    t.acquire_and_release().await;
    t.wait_for_connections(0).await;

    let t = Setup::new(|_| {}).await;
    t.acquire_and_release().await;
    t.wait_for_connections(1).await;
    t.backend.close().await;
    t.wait_for_connections(0).await;
}

/// The caller writes what fits into the socket's buffer, and the connection's task writes the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_exceeds_the_socket_buffer_is_written_completely() {
    let server = Server::shared().await;
    let config = format!("host=127.0.0.1 port={} user=postgres", server.port);
    let (config, name) = (config.parse().unwrap(), "PostgreSQL".into());
    let opened = Connection::open(&config, NoTls, &name, ignore_notifications()).await;
    let connection = opened.unwrap();
    for length in [20_000_000, 1, 5_000_000] {
        let message = format!("SELECT length('{}')", "x".repeat(length));
        let answer = timeout(Duration::from_secs(30), connection.query(&message)).await;
        let rows = answer.unwrap().unwrap();
        assert_eq!(first_of(&rows), Some(length.to_string().as_str()));
    }
    assert!(!connection.awaits_answer() && !connection.is_closed());
}

/// An abandoned request must not keep its connection open, because its answer may never come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_closes_although_a_request_was_abandoned() {
    let server = Server::shared().await;
    let application_name = unique("given-up");
    let config = format!(
        "host=127.0.0.1 port={} user=postgres application_name={application_name}",
        server.port
    );
    let (config, name) = (config.parse().unwrap(), "PostgreSQL".into());
    let opened = Connection::open(&config, NoTls, &name, ignore_notifications()).await;
    let connection = opened.unwrap();
    // Without `client_connection_check_interval` the server notices a lost client only when it
    // writes.
    let sleeping = connection.query("SELECT pg_sleep(0.5)");
    assert!(
        timeout(Duration::from_millis(100), sleeping).await.is_err(),
        "answered too soon"
    );
    assert!(connection.awaits_answer());
    drop(connection);
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{application_name}'"
    );
    timeout(Duration::from_secs(5), async {
        while server.sql(&sql).await.as_deref() != Some("0") {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
}
