//! Waiting without asking again and again: the server is asked to tell of changes to the lock
//! documents that somebody waits for.
//!
//! - [`watcher`] one for each backend: when to listen, and how soon again
//! - [`stream`] one `Listen` stream for all documents
//! - [`documents`] which these are, [`sight`] what is known of each
//! - [`key_watch`] what a waiter holds
//!
//! Every push is a billed read, so there is none for a document that nobody waits for.

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
