//! The end of the process: locks that `lock`, `hold` and `lead` still hold are released by native threads,
//! so that the next start need not wait for a TTL. That takes at most [`MAX_EXIT_DELAY`].

#[cfg(unix)]
mod signals;
#[cfg(unix)]
pub(super) use signals::block_signals;

use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, Instant};

use napi_derive::napi;

use super::panics::catch_panic;
use super::runtime::runtime;
use crate::client::Client;

/// How long the end of the process may be delayed.
const MAX_EXIT_DELAY: Duration = Duration::from_millis(450);

/// The clients whose locks are released. The references are weak, so that a client lives only as long as it
/// is used.
static CLIENTS: Mutex<Vec<Weak<Client>>> = Mutex::new(Vec::new());
/// Whether a client was ever registered.
static IS_NEEDED: AtomicBool = AtomicBool::new(false);

fn clients() -> MutexGuard<'static, Vec<Weak<Client>>> {
    CLIENTS.lock()
}

/// Registers a client: locks that it holds when the process ends are released.
pub(super) fn register(client: &Arc<Client>) {
    let mut clients = clients();
    clients.retain(|client| client.strong_count() > 0);
    clients.push(Arc::downgrade(client));
    IS_NEEDED.store(true, Ordering::Release);
}

/// Prepares for the end of the process. Called before a lock is held, by a client that may be registered.
pub(super) fn prepare() {
    if IS_NEEDED.load(Ordering::Acquire) {
        #[cfg(unix)]
        signals::prepare();
    }
}

/// Releases everything that is held. Returns when that is done, at the latest after [`MAX_EXIT_DELAY`].
/// JavaScript calls this on systems where the process ends without notifying native code.
#[napi]
pub fn release_held() {
    catch_panic(|| {
        let deadline = Instant::now() + MAX_EXIT_DELAY;
        let Ok(runtime) = runtime() else {
            return;
        };
        let (done, is_done) = mpsc::channel();
        let clients: Vec<_> = clients().iter().filter_map(Weak::upgrade).collect();
        for client in &clients {
            let (ending, done) = (Arc::clone(client).end_all(), done.clone());
            runtime.spawn(async move {
                ending.await;
                // If the release took too long, nobody listens any more.
                let _ = done.send(());
            });
        }
        for _ in clients {
            let left = deadline.saturating_duration_since(Instant::now());
            if is_done.recv_timeout(left).is_err() {
                return;
            }
        }
    });
}
