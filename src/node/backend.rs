//! The operations of a backend, as a class for JavaScript. Operations that every lock needs are faster
//! as plain functions: see [`calls`].

use std::ops::Deref;
use std::sync::Arc;

use napi::Env;
use napi::bindgen_prelude::Object;
use napi_derive::napi;
use tokio_util::sync::CancellationToken;

use super::calls;
use super::exit;
use super::operation::{Answer, Operations, checked, milliseconds};
use super::reply::{self, Reply};
use crate::backend::LookupQuery;
use crate::client::host::Moment;
use crate::error::Result;
use crate::lock::{Key, LockId, Ttl};

#[napi]
pub struct NativeBackend(pub(super) Arc<Operations>);

impl Deref for NativeBackend {
    type Target = Operations;

    fn deref(&self) -> &Operations {
        &self.0
    }
}

fn id_and_ttl(lock_id: &str, ttl_ms: f64) -> Result<(LockId, Ttl)> {
    Ok((LockId::parse(lock_id)?, Ttl::from_number(ttl_ms)?))
}

#[napi]
impl NativeBackend {
    /// Returns the operations that every lock needs, as functions.
    #[napi(ts_return_type = "{
    /** Makes one attempt. `sharing` is the limit of a shared lock, and 0 for an exclusive one. */
    acquire(key: string, ttlMs: number, cancellable: boolean, sharing: number): Answer
    /** Releases the lock. If `key` is given, a waiter of this process is woken. */
    release(lockId: string, key: string | null): Answer
    /** Acquires the lock and holds it. For `caller`, see `AcquireRequest::caller`. */
    hold(key: string, ttlMs: number, wait: boolean, autoExtend: boolean, cancellable: boolean, caller: number, limits: Float64Array): Answer
    /** Returns for how many milliseconds the lock is certainly still held. Negative if it is not. */
    heldFor(number: number): number
    /** Returns 1 if the grant reached its caller too late to be of use, otherwise 0. */
    isLate(number: number): number
    /** Releases the lock. Unless `knowsLoss`, answers `!` if the lock is not certainly held any more. If `mayCarry`, the answer may also carry the reply to a waiter: `1id,reply`. */
    endHold(number: number, mayCarry: boolean, knowsLoss: boolean): Answer
  }")]
    pub fn calls<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        calls::bind(env, &self.0)
    }

    #[napi]
    pub fn extend(&self, lock_id: String, ttl_ms: f64) -> Answer {
        checked(id_and_ttl(&lock_id, ttl_ms), |(lock_id, ttl)| {
            self.call(reply::extended, move |client| async move {
                client.extend(lock_id, ttl).await
            })
        })
    }

    #[napi]
    pub fn is_locked(&self, key: String) -> Answer {
        checked(Key::new(&key), |key| {
            self.call(reply::boolean, |client| async move {
                client.is_locked(&key).await
            })
        })
    }

    #[napi]
    pub fn lookup_key(&self, key: String) -> Answer {
        checked(Key::new(&key), |key| self.lookup(LookupQuery::Key(key)))
    }

    #[napi]
    pub fn lookup_id(&self, lock_id: String) -> Answer {
        checked(LockId::parse(&lock_id), |lock_id| {
            self.lookup(LookupQuery::LockId(lock_id))
        })
    }

    fn lookup(&self, query: LookupQuery) -> Answer {
        self.call(
            reply::found,
            |client| async move { client.lookup(&query).await },
        )
    }

    /// Lists a page of the live locks.
    #[napi]
    pub fn list(&self, after: Option<String>, limit: u32) -> Answer {
        self.call(reply::page, move |client| async move {
            client.list(after.as_deref(), limit as usize).await
        })
    }

    #[napi]
    pub fn force_release(&self, key: String) -> Answer {
        checked(Key::new(&key), |key| {
            self.call(reply::boolean, |client| async move {
                client.force_release(&key).await
            })
        })
    }

    /// Describes the store.
    #[napi]
    pub fn report(&self) -> Answer {
        self.call(reply::report, |client| async move { client.report().await })
    }

    /// Returns whether waiters are notified of a release.
    #[napi]
    pub fn can_watch(&self) -> bool {
        Key::new("any").is_ok_and(|key| self.backend.watch(&key).is_some())
    }

    #[napi]
    pub fn supports_sharing(&self) -> bool {
        self.client.capabilities().supports_sharing
    }

    /// Returns the engine's time in milliseconds, as in `validUntil`.
    #[napi]
    pub fn now(&self) -> f64 {
        reply::milliseconds(self.client.host().now()) as f64
    }

    /// Sends an empty reply, under the id that it returns, when the engine's time reaches `at_ms`.
    #[napi]
    pub fn alarm(&self, at_ms: f64) -> f64 {
        let id = self.outbox.next_id();
        let pending = self.outbox.pending(id);
        let cancel = CancellationToken::new();
        self.outbox.queue.start(id, cancel.clone());
        let moment = Moment::after_start(milliseconds(at_ms));
        self.in_turn(|| {
            let ringing = self.client.host().sleep_until(moment);
            self.client.host().spawn(Box::pin(async move {
                cancel.run_until_cancelled(ringing).await;
                pending.finish(Reply::nothing());
            }));
        });
        id as f64
    }

    /// Releases the locks of this backend when the process ends, unless that needs JavaScript, which has
    /// ended by then.
    #[napi]
    pub fn release_on_exit(&self) {
        self.held.release_on_exit();
        if !self.needs_javascript {
            exit::register(&self.client);
        }
    }

    /// Returns whether the backend, or its clock, is JavaScript's. JavaScript then has to take the replies
    /// that are ready after each call.
    #[napi]
    pub fn needs_javascript(&self) -> bool {
        self.needs_javascript
    }

    /// Cancels the operation. A lock that it acquires is released.
    #[napi]
    pub fn cancel(&self, id: f64) {
        self.in_turn(|| self.outbox.queue.cancel(id as u64));
    }

    /// Returns the SQL that `setup` runs. Null if the store needs none.
    #[napi]
    pub fn schema(&self) -> Option<String> {
        self.backend.schema()
    }

    /// Creates the tables of a database.
    #[napi]
    pub fn setup(&self) -> Answer {
        let client = Arc::clone(&self.client);
        self.start(
            async move { reply::of(client.setup().await, |()| reply::boolean(true)).into() },
            None,
        )
    }

    #[napi]
    pub fn close(&self, timeout_ms: f64) -> Answer {
        let client = Arc::clone(&self.client);
        let timeout = milliseconds(timeout_ms);
        self.start(
            async move {
                client.close(timeout).await;
                Reply::from(reply::boolean(true)).into()
            },
            None,
        )
    }
}
