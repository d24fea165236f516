//! Waiting without polling: the server reports changes to the lock documents that have waiters.
//!
//! - [`watcher`] decides when to listen and when to reconnect
//! - [`stream`] is the one `Listen` stream for all documents
//! - [`documents`] lists them, [`sight`] is what is known about each
//! - [`key_watch`] is what a waiter holds
//!
//! Every push is a billed read, so only documents with waiters are watched.

mod documents;
mod key_watch;
mod sight;
mod stream;
mod watcher;

use tokio::time::{Instant, sleep_until};

pub(super) use watcher::{WatchPolicy, Watcher};

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
