//! The engine: everything that callers do with a backend. Each rule is written here once, for every
//! kind of call and every backend:
//!
//! - [`acquire`]: a single attempt, and holding the lock that it acquired;
//! - [`wait`]: how to wait for a lock. Waiters of this process form a [`queue`]. [`rivals`] are the
//!   waiters of other processes. [`timeout`] explains why a wait ended;
//! - [`mark`]: how a waiting writer keeps new readers out;
//! - [`hold`]: until when a lock is certainly held. [`heartbeat`]: how it is kept alive.
//!   [`ending`]: how it ends. [`holds`]: the registry of all holds of a client;
//! - [`several`]: how several keys are acquired together;
//! - [`undo`]: how an acquire that nobody owns is released.
//!
//! Time and threads come from a [`host`]: the [`system`], or a simulated one in tests. An operation
//! that waits is [`parked`].

mod acquire;
mod ending;
mod first_heartbeat;
mod heartbeat;
mod hold;
mod holds;
pub mod host;
mod mark;
pub mod parked;
mod queue;
mod releases;
mod rivals;
mod several;
pub mod system;
mod timeout;
mod undo;
mod wait;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::backend::report::Finding;
use crate::backend::{Backend, Capabilities, LockRecord, LookupQuery, Page, ReleaseOutcome};
use crate::error::{Error, ErrorCode, Result};
use crate::lock::{Fence, HolderLabel, Key, LockId, Share};

pub use acquire::{HoldRequest, LockRequest, Settled};
pub use hold::{Hold, HoldEvent, HoldPolicy};
pub use several::SeveralRequest;
pub use wait::{Progress, WaitPolicy};

use first_heartbeat::FirstHeartbeats;
use holds::Holds;
use host::{Host, Moment};
use queue::Queues;
#[cfg(test)]
use simulation::mutation::Mutation;
use undo::Undoing;

/// A lock that was just acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub lock_id: LockId,
    pub fence: Fence,
    pub expires_at_ms: u64,
    /// None if the lock is exclusive.
    pub share: Option<Share>,
    /// The moment before the request: the store granted the lock then or later.
    pub granted_at: Moment,
    /// When the answer came. The request may have taken long, for example to connect.
    pub answered_at: Moment,
    /// The lock is certainly held until this moment, whatever the clocks of other machines say.
    pub valid_until: Moment,
}

/// The new validity of a lock that was extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    pub expires_at_ms: u64,
    pub valid_until: Moment,
}

pub struct Client {
    backend: Arc<dyn Backend>,
    capabilities: Capabilities,
    host: Arc<dyn Host>,
    label: Option<HolderLabel>,
    queues: Arc<Queues>,
    holds: Holds,
    first_heartbeats: Arc<FirstHeartbeats>,
    undoing: Undoing,
    /// Cancelled when `close` begins: no new locks are granted.
    closing: CancellationToken,
    /// Cancelled when the backend is closed: every operation fails.
    closed: CancellationToken,
    /// Set when the process is about to exit: acquires are not answered any more.
    is_process_ending: AtomicBool,
    close_called: AtomicBool,
}

impl Client {
    pub fn new(backend: Arc<dyn Backend>, host: Arc<dyn Host>) -> Arc<Self> {
        Self::with_label(backend, host, None)
    }

    /// Creates a client whose locks are stored with this label.
    pub fn with_label(
        backend: Arc<dyn Backend>,
        host: Arc<dyn Host>,
        label: Option<HolderLabel>,
    ) -> Arc<Self> {
        Arc::new(Self {
            capabilities: backend.capabilities(),
            backend,
            host,
            label,
            queues: Arc::default(),
            holds: Holds::default(),
            first_heartbeats: Arc::default(),
            undoing: Undoing::default(),
            closing: CancellationToken::new(),
            is_process_ending: AtomicBool::new(false),
            closed: CancellationToken::new(),
            close_called: AtomicBool::new(false),
        })
    }

    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    pub async fn setup(&self) -> Result<()> {
        self.check_open()?;
        self.backend.setup().await
    }

    /// Releases the lock. If the caller knows the lock's key, a waiter of this process is woken.
    pub async fn release(&self, lock_id: LockId, key: Option<Key>) -> Result<ReleaseOutcome> {
        self.check_open()?;
        let outcome = match &key {
            Some(key) => self.release_and_wake(lock_id, key).await?,
            None => self.backend.release(lock_id.into()).await?,
        };
        if let Some(hold) = self.holds.get(lock_id) {
            hold.mark_lost(hold::lost(
                "The lock was released while it was still needed",
            ));
            if key.is_none() {
                self.queues.released(&hold.key);
            }
        }
        Ok(outcome)
    }

    pub async fn is_locked(&self, key: &Key) -> Result<bool> {
        self.check_open()?;
        self.backend.is_locked(key).await
    }

    pub async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        self.check_open()?;
        self.backend.lookup(query).await
    }

    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page> {
        self.check_open()?;
        self.backend.list(after, limit).await
    }

    /// Removes the lock of this key, whoever holds it. Returns whether there was one.
    pub async fn force_release(&self, key: &Key) -> Result<bool> {
        self.check_open()?;
        // Looked up before the removal: a hold that begins after it is a new lock.
        let held = self.holds.of(key);
        let released = self.backend.force_release(key).await?;
        for hold in held.iter().filter(|_| released) {
            hold.mark_lost_elsewhere();
        }
        self.queues.released(key);
        Ok(released)
    }

    pub async fn report(&self) -> Result<Vec<Finding>> {
        self.check_open()?;
        self.backend.report().await
    }

    /// Closes the client. Waits end at once. Locks that are held keep their connection until they are
    /// released, or until `timeout` has passed; then they are released here and count as lost. A
    /// second call waits for the first one.
    pub async fn close(self: Arc<Self>, timeout: Duration) {
        if self.close_called.swap(true, Ordering::AcqRel) {
            return self.closed.cancelled().await;
        }
        self.closing.cancel();
        tokio::select! {
            biased;
            () = self.holds.until_empty() => {}
            () = self.host.sleep_until(self.host.now() + timeout) => {}
        }
        for hold in self.holds.all() {
            #[cfg(test)]
            if Mutation::HoldsLeft.is_on() {
                break;
            }
            if self.is_left_to_expire(&hold) {
                continue;
            }
            let why = hold::lost("The lock was given up: its backend was closed");
            self.revoke(&hold, why);
        }
        self.finish_undoing().await;
        self.closed.cancel();
        self.backend.close().await;
    }

    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Does not return once the process is ending, unless the backend is closed. JavaScript may run a
    /// moment longer, and would print an error in its last milliseconds.
    async fn stall_at_process_end(&self) {
        if self.is_process_ending.load(Ordering::Acquire) {
            self.closed.cancelled().await;
        }
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.is_cancelled() {
            return Err(closed());
        }
        Ok(())
    }
}

fn closed() -> Error {
    Error::invalid_argument("This backend is closed: create a new one")
}

fn aborted() -> Error {
    Error::new(ErrorCode::Aborted, "Operation aborted by signal")
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
