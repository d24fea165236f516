//! Calls from the core into the program that uses it.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::error::Result;

/// An object of the program that the core asks: a user's own backend, database client or function.
pub trait Foreign: Send + Sync + 'static {
    /// Asks a question. Question and answer are JSON. The question is answered even if the future is
    /// dropped. It has no time limit.
    fn ask(&self, question: serde_json::Value) -> BoxFuture<'static, Result<serde_json::Value>>;
}

/// A value that the program threw. The program keeps it under a number until the last clone of this is
/// dropped.
#[derive(Clone)]
pub struct Thrown(Arc<Kept>);

struct Kept {
    number: u64,
    forget: Box<dyn Fn(u64) + Send + Sync>,
}

impl Thrown {
    pub fn new(number: u64, forget: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Kept {
            number,
            forget: Box::new(forget),
        }))
    }

    pub fn number(&self) -> u64 {
        self.0.number
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        (self.forget)(self.number);
    }
}

impl PartialEq for Thrown {
    fn eq(&self, other: &Self) -> bool {
        self.number() == other.number()
    }
}

impl Eq for Thrown {}

impl fmt::Debug for Thrown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Thrown(…)")
    }
}
