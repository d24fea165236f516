//! The program that we are part of, asked to do something for us: the way back into it.

use futures_util::future::BoxFuture;

use crate::error::Result;

/// A part of the program that can be asked: a backend or a database client that is written there.
pub trait Foreign: Send + Sync + 'static {
    /// Question and answer are JSON. The future does not depend on being polled: what was asked for
    /// is done also when it is dropped. It has no time limit of its own.
    fn ask(&self, question: serde_json::Value) -> BoxFuture<'static, Result<serde_json::Value>>;
}
