//! Tests against the emulator, which runs in this process behind a layer that injects faults.

mod auth;
mod away;
mod basics;
mod contention;
mod damage;
mod faults;
#[path = "../../../../__test__/firestore/emulator/faults.rs"]
mod firestore_faults;
mod list;
mod sharing;
mod token_server;
mod watch;
mod watch_faults;
mod wire;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::watch::WatchPolicy;
use super::{FirestoreBackend, FirestoreConfig};
use crate::backend::{AcquireOutcome, AcquireRequest, Backend, Warnings};
use crate::error::Result;
use crate::lock::{Access, Fence, Key, LockId, Ttl};
use firestore_faults::Faults;
pub(super) use token_server::TokenServer;

struct Server {
    address: String,
    faults: Faults,
    warnings: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Server {
    async fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap().to_string();
        let admin = hidane::Admin::default();
        let faults = Faults::default();
        let grpc = faults.guard(hidane::grpc_routes(&admin));
        let http = hidane::http_routes(admin);
        let serving = tokio::spawn(async move {
            let _ = hidane::serve(vec![listener], grpc, http, std::future::pending()).await;
        });
        Self {
            address,
            faults,
            warnings: Arc::default(),
            serving,
        }
    }

    /// Stops the server, closes its connections and loses everything that it stored.
    async fn stop(self) {
        self.serving.abort();
        let _ = self.serving.await;
    }

    fn config(&self) -> FirestoreConfig {
        FirestoreConfig {
            project_id: Some("test".to_owned()),
            emulator_host: Some(self.address.clone()),
            ..FirestoreConfig::default()
        }
    }

    fn backend(&self) -> FirestoreBackend {
        self.backend_with(|_| {})
    }

    /// Opens a backend for operations that are expected to time out.
    fn impatient_backend(&self) -> FirestoreBackend {
        self.backend_with(|config| config.operation_timeout_ms = 1_500)
    }

    fn backend_with(&self, change: impl FnOnce(&mut FirestoreConfig)) -> FirestoreBackend {
        let mut config = self.config();
        change(&mut config);
        self.open(config, WatchPolicy::default())
    }

    fn open(&self, config: FirestoreConfig, policy: WatchPolicy) -> FirestoreBackend {
        self.open_with(config, policy, false)
    }

    fn open_with(
        &self,
        config: FirestoreConfig,
        policy: WatchPolicy,
        debug: bool,
    ) -> FirestoreBackend {
        let heard = Arc::clone(&self.warnings);
        let warnings = Warnings::new(move |text| heard.lock().unwrap().push(text.to_owned()));
        FirestoreBackend::open_with(config, warnings.with_debug(debug), policy).unwrap()
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap().clone()
    }

    /// Returns the names of the calls since it was last called.
    fn calls(&self) -> Vec<String> {
        let calls = self.faults.take_calls().into_iter();
        calls.map(|call| call.method).collect()
    }
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn ttl(ms: u32) -> Ttl {
    Ttl::from_number(f64::from(ms)).unwrap()
}

fn request(text: &str, ttl_ms: u32) -> AcquireRequest {
    AcquireRequest {
        key: key(text),
        lock_id: LockId::generate(),
        ttl: ttl(ttl_ms),
        label: None,
        caller: 0,
        access: Access::Exclusive,
        mark: None,
    }
}

async fn acquire(backend: &FirestoreBackend, text: &str, ttl_ms: u32) -> Result<Option<Held>> {
    let request = request(text, ttl_ms);
    Ok(match backend.acquire(&request).await? {
        AcquireOutcome::Acquired {
            fence,
            expires_at_ms,
            ..
        } => Some(Held {
            lock_id: request.lock_id,
            fence,
            expires_at_ms,
        }),
        AcquireOutcome::Locked(_) => None,
    })
}

/// Makes an attempt that must be refused. Returns how long the lock in the way lasts.
async fn refused(backend: &FirestoreBackend, text: &str) -> Duration {
    match backend.acquire(&request(text, 1_000)).await.unwrap() {
        AcquireOutcome::Locked(holder) => holder.unwrap().free_in,
        acquired => panic!("{acquired:?}"),
    }
}

#[derive(Debug, Clone, Copy)]
struct Held {
    lock_id: LockId,
    fence: Fence,
    expires_at_ms: u64,
}

async fn sleep_ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
