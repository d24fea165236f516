//! The way back into JavaScript: one queue and one wake-up for everything that is ready.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napi::bindgen_prelude::{Either, FnArgs, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;

use super::reply::{self, Reply};
use crate::client::Hold;
use crate::error::Error;

/// JavaScript sees `[id, reply, id, reply, …]`.
#[napi]
pub type Batch = Vec<Either<f64, String>>;
type Wake = ThreadsafeFunction<(), (), FnArgs<(Batch,)>, napi::Status, false, true>;

/// The id of a warning: no operation has it.
const WARNING: u64 = 0;

/// One for each JavaScript context (the main thread, a worker).
#[napi]
pub struct Bridge {
    pub(super) completions: Arc<Completions>,
}

#[napi]
impl Bridge {
    #[napi(constructor)]
    pub fn new(on_batch: Function<FnArgs<(Batch,)>, ()>) -> napi::Result<Self> {
        let queue = Arc::new(Queue::default());
        let ready = Arc::clone(&queue);
        // Weak: an idle backend does not keep the process alive.
        let wake = on_batch
            .build_threadsafe_function::<()>()
            .weak::<true>()
            .build_callback(move |_| Ok(FnArgs::from((ready.drain(),))))?;
        let completions = Completions {
            queue,
            wake,
            next_id: AtomicU64::new(WARNING + 1),
            running: Mutex::default(),
        };
        Ok(Self {
            completions: Arc::new(completions),
        })
    }
}

#[derive(Default)]
struct Queue(Mutex<Vec<(u64, Reply)>>);

impl Queue {
    /// Whether this is the first since the last drain: only then is a wake-up due.
    fn push(&self, id: u64, reply: Reply) -> bool {
        let mut ready = lock(&self.0);
        ready.push((id, reply));
        ready.len() == 1
    }

    fn drain(&self) -> Batch {
        let ready = std::mem::take(&mut *lock(&self.0));
        ready
            .into_iter()
            .flat_map(|(id, reply)| [Either::A(id as f64), Either::B(reply.deliver())])
            .collect()
    }
}

pub struct Completions {
    queue: Arc<Queue>,
    wake: Wake,
    next_id: AtomicU64,
    /// What JavaScript may still stop, by its id.
    running: Mutex<HashMap<u64, Hold>>,
}

impl Completions {
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub fn post(&self, id: u64, reply: Reply) {
        if self.queue.push(id, reply) {
            // Fails only when the context is being torn down: then nobody waits any more.
            self.wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }

    pub fn warn(&self, text: &str) {
        self.post(WARNING, text.to_owned().into());
    }

    pub fn running(&self) -> MutexGuard<'_, HashMap<u64, Hold>> {
        lock(&self.running)
    }

    /// What owes the reply to `id`.
    pub fn pending(self: &Arc<Self>, id: u64) -> Pending {
        Pending {
            completions: Arc::clone(self),
            id,
            settled: false,
        }
    }
}

/// Posts the reply to an operation; an error when its task dies without one, so that no promise
/// is left pending.
pub struct Pending {
    completions: Arc<Completions>,
    id: u64,
    settled: bool,
}

impl Pending {
    /// Answers the caller; `finish` must still follow.
    pub fn interim(&mut self, reply: Reply) {
        self.completions.post(self.id, reply.interim());
    }

    pub fn finish(mut self, reply: Reply) {
        self.settled = true;
        self.completions.post(self.id, reply);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.completions.running().remove(&self.id);
        if !self.settled {
            self.completions.post(
                self.id,
                reply::error(&Error::internal("The operation failed unexpectedly")).into(),
            );
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
