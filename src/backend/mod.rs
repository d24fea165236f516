//! A backend stores locks in one kind of store. It receives validated keys, lockIds and TTLs, and
//! answers with plain facts. Validating arguments, waiting, undoing and the shape of results belong
//! to its callers.

mod backoff;
pub mod credentials;
pub mod firestore;
pub mod javascript;
pub mod memory;
pub mod postgres;
pub mod redis;
pub mod report;
pub mod sqlite;
pub mod tls;
pub mod unreachable;
pub mod watch;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::lock::{Access, Fence, HolderLabel, Key, LockId, Share, Ttl};
use report::Finding;

#[derive(Debug, Clone)]
pub struct AcquireRequest {
    pub key: Key,
    /// The id of the lock that is acquired. See [`Capabilities::lock_id_bits`].
    pub lock_id: LockId,
    pub ttl: Ttl,
    /// A name of the holder that is stored with the lock. None to store none.
    pub label: Option<HolderLabel>,
    /// The number by which the program knows the call that asks, for backends that are part of the
    /// program. 0 if it has none.
    pub caller: u64,
    pub access: Access,
    /// The id of the mark that this exclusive attempt leaves in a shared record that refuses it. None
    /// if nobody waits for the key.
    pub mark: Option<LockId>,
}

#[derive(Debug, Clone)]
pub struct ReleaseRequest {
    pub lock_id: LockId,
    /// The lock's key, if the caller knows it and this backend acquired the lock. Some stores then
    /// need one step less.
    pub key: Option<Key>,
}

impl From<LockId> for ReleaseRequest {
    fn from(lock_id: LockId) -> Self {
        Self { lock_id, key: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcquireOutcome {
    Acquired {
        fence: Fence,
        expires_at_ms: u64,
        /// None if the lock is exclusive.
        share: Option<Share>,
    },
    /// Another holder has the lock. None if the store does not say which.
    Locked(Option<Holder>),
}

/// The holder of a lock that somebody else wants. Of several, the one that the refused attempt waits
/// for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The time until the attempt can succeed, unless a lock is extended.
    pub free_in: Duration,
    /// When the lock expires by the store's clock. If a later attempt sees another value, the lock
    /// was extended or has a new holder.
    pub expires_at_ms: u64,
    /// Whether the key is shared. An exclusive waiter then leaves a mark.
    pub is_shared: bool,
    pub label: Option<HolderLabel>,
}

/// Why a lock could not be released or extended, as far as the store's answer shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    Expired,
    /// The lock never existed, is gone, or has another lockId.
    NotFound,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseOutcome {
    Released,
    Missed(Miss),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtendOutcome {
    Extended { expires_at_ms: u64 },
    Missed(Miss),
}

#[derive(Debug, Clone)]
pub enum LookupQuery {
    Key(Key),
    LockId(LockId),
}

/// A live lock as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct LockRecord {
    pub key: String,
    pub lock_id: LockId,
    pub expires_at_ms: u64,
    pub acquired_at_ms: u64,
    pub fence: Fence,
    pub label: Option<HolderLabel>,
    /// None if the lock is exclusive.
    pub share: Option<Share>,
}

/// A page of the list of live locks.
#[derive(Default)]
pub struct Page {
    pub locks: Vec<LockRecord>,
    /// The cursor that asks for the next page. None after the last page. A page may be empty without
    /// being the last one.
    pub next: Option<String>,
}

/// Reports when a key may have become free. Dropping a watch ends it.
#[async_trait]
pub trait Watch: Send {
    /// Returns when an attempt to acquire makes sense. The first return comes as soon as the watch is
    /// in force, unless the key is known to be locked at that moment. Then every release, expiry or
    /// take-over causes a return, even if another process caused it. Changes between two calls are not
    /// lost. Returning too often is harmless.
    ///
    /// While the store cannot notify, this waits. Once the store can notify again it returns once,
    /// because a change may have been missed. The future may be dropped at any await.
    async fn changed(&mut self);
}

/// The spare bits of the lockIds of holders of a shared key, on stores that keep or find these holders in
/// another way than exclusive ones. See [`Capabilities::shared_lock_id_bits`].
const HOLDER_BITS: usize = 1;

/// How a backend differs from others, as far as its callers act on it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Capabilities {
    /// Whether requests that one thread starts one after the other usually take effect in that order.
    pub keeps_order: bool,
    /// Whether no other process uses the store, so that a release cannot wake waiters elsewhere.
    pub is_local: bool,
    /// Whether operations complete on threads of the backend itself, where the caller may continue at
    /// once, and not in tasks of the runtime.
    pub has_own_threads: bool,
    /// Whether several holders can share a key.
    pub supports_sharing: bool,
    /// Computes the bits that the lockIds of a key must carry ([`LockId::with_spare_bits`]), for a
    /// store that must find a lock by its lockId alone. None if a lockId need not carry any.
    pub lock_id_bits: Option<fn(&Key) -> usize>,
    /// The bits that the lockIds of shared holders carry instead, for a store that keeps them in another
    /// place than exclusive ones and must know from the lockId alone where to look. None if a lockId
    /// does not tell which of the two it is.
    pub shared_lock_id_bits: Option<usize>,
}

impl Capabilities {
    /// Makes `lock_id` fit for a lock of this key.
    pub fn lock_id_for(&self, key: &Key, access: Access, lock_id: LockId) -> LockId {
        let bits = match (access, self.shared_lock_id_bits, self.lock_id_bits) {
            (Access::Shared { .. }, Some(bits), _) => bits,
            (_, _, Some(bits_of)) => bits_of(key),
            _ => return lock_id,
        };
        lock_id.with_spare_bits(bits)
    }
}

/// The operations of a store. Each one is a single attempt whose duration the backend limits.
/// `acquire`, `release` and `extend` are atomic in the store.
///
/// Callers run the future of an operation to its end even if nobody waits for the result any more, so
/// a backend need not cope with futures that are dropped half-way. If an acquire may have taken effect
/// although it failed, its error is marked as
/// [`outcome_unknown`](crate::error::Error::outcome_unknown).
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Returns what this backend is like. The value never changes.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
    /// Creates what must exist before the first lock, such as tables.
    async fn setup(&self) -> Result<()> {
        Ok(())
    }
    /// Returns the statements that `setup` runs, for people who run them themselves. None if the store
    /// needs no set-up.
    fn schema(&self) -> Option<String> {
        None
    }
    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome>;
    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseOutcome>;
    /// Removes an exclusive waiter's mark from a shared record, if it is still there.
    async fn unmark(&self, _key: &Key, _mark: LockId) -> Result<()> {
        Ok(())
    }
    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome>;
    async fn is_locked(&self, key: &Key) -> Result<bool>;
    /// Returns the lock if it is live.
    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>>;
    /// Returns about `limit` live locks, in any order. It only reads, and never blocks the store.
    async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page>;
    /// Removes the lock of this key, whoever holds it. Returns whether there was a live one.
    async fn force_release(&self, key: &Key) -> Result<bool>;
    /// Watches the key. The first call of [`Watch::changed`] connects to the store. None if the store
    /// cannot notify.
    fn watch(&self, _key: &Key) -> Option<Box<dyn Watch>> {
        None
    }
    /// Describes the store for a person who looks for the cause of a problem.
    async fn report(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
    /// Returns why operations have to wait before they are sent, such as a refused connection.
    fn obstacle(&self) -> Option<Error> {
        None
    }
    /// Closes connections and files. Called once, after the last operation.
    async fn close(&self);
}

/// Where a backend reports what a person should know and no result can carry.
#[derive(Clone)]
pub struct Warnings {
    sink: Arc<dyn Fn(&str) + Send + Sync>,
    debug: bool,
}

impl Warnings {
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            sink: Arc::new(sink),
            // Read now, on the thread that may change the environment, and not later on another one.
            debug: std::env::var("SYNCGUARD_DEBUG").is_ok_and(|value| value == "true"),
        }
    }

    #[cfg(test)]
    pub fn with_debug(self, debug: bool) -> Self {
        Self { debug, ..self }
    }

    /// The text must not contain a key, a lockId or a credential.
    pub fn warn(&self, text: &str) {
        (self.sink)(text);
    }

    /// Warns only if the user looks for the cause of a problem (`SYNCGUARD_DEBUG=true`).
    pub fn debug(&self, text: &str) {
        if self.debug {
            self.warn(text);
        }
    }
}
