//! A reply of which it is known what became of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
pub struct Reply {
    /// Nobody has taken it. None for one that says nothing.
    unclaimed: Option<Arc<AtomicBool>>,
}

impl Reply {
    pub fn new(unclaimed: Arc<AtomicBool>) -> Self {
        let unclaimed = Some(unclaimed);
        Self { unclaimed }
    }

    pub fn nothing() -> Self {
        Self::default()
    }

    /// Whether it said something.
    pub fn deliver(mut self) -> bool {
        self.unclaimed.take().is_some()
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(unclaimed) = &self.unclaimed {
            unclaimed.store(true, Ordering::Relaxed);
        }
    }
}
