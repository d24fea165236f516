//! The end of the process: what `lock`, `hold` and `lead` still hold is released, by native threads and
//! within [`PATIENCE`], so that the next start need not wait for a TTL.

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
const PATIENCE: Duration = Duration::from_millis(450);

/// The clients whose locks are released. Weak: a client lives as long as somebody uses it.
static CLIENTS: Mutex<Vec<Weak<Client>>> = Mutex::new(Vec::new());
static IS_NEEDED: AtomicBool = AtomicBool::new(false);

fn clients() -> MutexGuard<'static, Vec<Weak<Client>>> {
    CLIENTS.lock()
}

/// From now on, what this client holds is released at the end of the process.
pub(super) fn register(client: &Arc<Client>) {
    let mut clients = clients();
    clients.retain(|client| client.strong_count() > 0);
    clients.push(Arc::downgrade(client));
    IS_NEEDED.store(true, Ordering::Release);
}

/// A lock is about to be held, perhaps by a client that is registered.
pub(super) fn prepare() {
    if IS_NEEDED.load(Ordering::Acquire) {
        #[cfg(unix)]
        signals::prepare();
    }
}

/// Releases everything that is held, and returns when that is done or [`PATIENCE`] is used up. For
/// JavaScript where the process ends without telling us.
#[napi]
pub fn release_held() {
    catch_panic(|| {
        let deadline = Instant::now() + PATIENCE;
        let Ok(runtime) = runtime() else {
            return;
        };
        let (done, is_done) = mpsc::channel();
        let clients: Vec<_> = clients().iter().filter_map(Weak::upgrade).collect();
        for client in &clients {
            let (ending, done) = (Arc::clone(client).end_all(), done.clone());
            runtime.spawn(async move {
                ending.await;
                // Nobody listens any more if it took too long.
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
