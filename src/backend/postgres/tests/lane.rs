//! The session that an event loop serves, with a loop whose turns the test can stop.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::server::{Server, request, unique};
use crate::backend::postgres::{PostgresBackend, PostgresConfig};
use crate::backend::{AcquireOutcome, Backend, ReleaseOutcome, Warnings};
use crate::event_loop::{Event, EventLoop, Interest, Watched};

const SOON: Duration = Duration::from_secs(5);

/// Every thread is its own, unless it is elsewhere.
#[derive(Default)]
struct Loop {
    elsewhere: AtomicBool,
    busy: AtomicBool,
    watched: Mutex<Vec<Arc<dyn Watched>>>,
}

impl Loop {
    fn start() -> Arc<Self> {
        let home = Arc::new(Self::default());
        let turning = Arc::downgrade(&home);
        thread::spawn(move || {
            while let Some(home) = Weak::upgrade(&turning) {
                home.turn();
                thread::sleep(Duration::from_millis(1));
            }
        });
        home
    }

    fn turn(&self) {
        if !self.busy.load(SeqCst) {
            let mut watched = self.watched.lock().unwrap();
            watched.retain(|socket| socket.turn(Event::Ready) != Interest::Nothing);
        }
    }

    fn sockets(&self) -> usize {
        self.watched.lock().unwrap().len()
    }
}

impl EventLoop for Loop {
    fn is_here(&self) -> bool {
        !self.elsewhere.load(SeqCst)
    }
    fn is_gathering(&self) -> bool {
        false
    }
    fn watch(&self, socket: Arc<dyn Watched>) {
        self.watched.lock().unwrap().push(socket);
    }
    /// It turns all the time.
    fn nudge(&self) {}
}

struct Setup {
    server: Arc<Server>,
    home: Arc<Loop>,
    backend: Arc<PostgresBackend>,
    name: String,
}

impl Setup {
    async fn new(change: impl FnOnce(&mut PostgresConfig)) -> Self {
        let server = Server::shared().await;
        let mut config = server.config();
        let name = unique("lane");
        let application_name = ("application_name".to_owned(), name.clone());
        config.params.extend([application_name]);
        config.table_name = unique("locks");
        config.fence_table_name = unique("fences");
        change(&mut config);
        let home = Loop::start();
        let own = Arc::clone(&home) as Arc<dyn EventLoop>;
        let backend = PostgresBackend::open(config, Warnings::new(|_| {}), Some(own)).unwrap();
        backend.setup().await.unwrap();
        Self {
            server,
            home,
            backend: Arc::new(backend),
            name,
        }
    }

    /// One whose requests go over the lane.
    async fn ready(change: impl FnOnce(&mut PostgresConfig)) -> Self {
        let setup = Self::new(change).await;
        for _ in 0..20 {
            setup.pair().await;
        }
        until(async || setup.home.sockets() == 1).await;
        // It is prepared once the loop serves it.
        sleep(Duration::from_millis(100)).await;
        setup
    }

    async fn pair(&self) {
        let request = request("k", 60_000);
        let acquired = self.backend.acquire(&request).await.unwrap();
        assert!(matches!(acquired, AcquireOutcome::Acquired { .. }));
        let released = self.backend.release(request.lock_id).await.unwrap();
        assert_eq!(released, ReleaseOutcome::Released);
    }

    async fn connections(&self) -> String {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}'",
            self.name
        );
        self.server.sql(&sql).await.unwrap()
    }
}

impl Setup {
    async fn terminate(&self) {
        let sql = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE application_name = '{}'",
            self.name
        );
        self.server.sql(&sql).await;
        until(async || self.connections().await == "0").await;
        // Until the pool has noticed.
        sleep(Duration::from_millis(50)).await;
    }
}

async fn until(mut condition: impl AsyncFnMut() -> bool) {
    timeout(SOON, async {
        while !condition().await {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_served_by_the_loop() {
    let t = Setup::ready(|_| {}).await;
    assert_eq!(t.connections().await, "2");
    t.pair().await;

    t.home.busy.store(true, SeqCst);
    let backend = Arc::clone(&t.backend);
    let acquiring = tokio::spawn(async move { backend.acquire(&request("other", 60_000)).await });
    sleep(Duration::from_millis(200)).await;
    assert!(!acquiring.is_finished());
    // Another one finds it in use.
    t.pair().await;
    t.home.busy.store(false, SeqCst);
    let acquired = timeout(SOON, acquiring).await.unwrap().unwrap().unwrap();
    assert!(matches!(acquired, AcquireOutcome::Acquired { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_threads_do_without_it() {
    let t = Setup::ready(|_| {}).await;
    t.home.busy.store(true, SeqCst);
    t.home.elsewhere.store(true, SeqCst);
    t.pair().await;
}

/// As long as the event loop is blocked it does not read. Another thread does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_read_although_the_loop_is_busy() {
    let t = Setup::ready(|config| config.operation_timeout_ms = 60_000).await;
    t.home.busy.store(true, SeqCst);
    let backend = Arc::clone(&t.backend);
    let acquiring = tokio::spawn(async move { backend.acquire(&request("k", 60_000)).await });
    sleep(Duration::from_millis(200)).await;
    assert!(!acquiring.is_finished());
    t.home.elsewhere.store(true, SeqCst);
    let acquired = timeout(SOON, acquiring).await.unwrap().unwrap().unwrap();
    assert!(matches!(acquired, AcquireOutcome::Acquired { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_the_server_ends_is_made_again() {
    let t = Setup::ready(|_| {}).await;
    for _ in 0..2 {
        t.terminate().await;
        until(async || t.home.sockets() == 0).await;
        for _ in 0..20 {
            t.pair().await;
        }
        until(async || t.home.sockets() == 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_ended_while_the_loop_was_busy_is_not_used() {
    let t = Setup::ready(|_| {}).await;
    t.home.busy.store(true, SeqCst);
    t.terminate().await;
    t.pair().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_ends_when_nobody_needs_it_and_with_the_backend() {
    let t = Setup::ready(|config| config.idle_timeout_ms = 200).await;
    until(async || t.connections().await == "0").await;
    assert_eq!(t.home.sockets(), 0);

    let t = Setup::ready(|_| {}).await;
    t.backend.close().await;
    until(async || t.connections().await == "0").await;
    assert_eq!(t.home.sockets(), 0);
}

/// So is a request that waits for an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_that_ends_leaves_the_pool() {
    let t = Setup::ready(|_| {}).await;
    t.home.busy.store(true, SeqCst);
    let backend = Arc::clone(&t.backend);
    let acquiring = tokio::spawn(async move { backend.acquire(&request("other", 60_000)).await });
    sleep(Duration::from_millis(200)).await;
    for socket in t.home.watched.lock().unwrap().drain(..) {
        socket.close();
    }
    let error = timeout(SOON, acquiring)
        .await
        .unwrap()
        .unwrap()
        .unwrap_err();
    assert!(error.outcome_unknown);
    t.pair().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pool_has_no_more_connections_than_it_may() {
    for pool_size in [1, 2] {
        let t = Setup::new(|config| config.pool_size = Some(pool_size)).await;
        for _ in 0..20 {
            t.pair().await;
        }
        assert_eq!((t.home.sockets(), t.connections().await.as_str()), (0, "1"));
    }

    let t = Setup::ready(|config| config.pool_size = Some(3)).await;
    let many: Vec<_> = (0..40)
        .map(|index| {
            let backend = Arc::clone(&t.backend);
            tokio::spawn(async move {
                let request = request(&format!("k{index}"), 60_000);
                backend.acquire(&request).await.unwrap();
                backend.release(request.lock_id).await.unwrap();
            })
        })
        .collect();
    for one in many {
        one.await.unwrap();
    }
    let connections: u32 = t.connections().await.parse().unwrap();
    assert!((2..=3).contains(&connections), "{connections}");
}
