//! Wakes waiters when their key may be free.
//!
//! The server reports changes to the watched lock documents on one `Listen` stream for the whole backend.
//! Each report is a billed read, so the stream is open only while documents are watched, and a little
//! longer.
//!
//! - [`listener`] is the task that opens the stream, and opens it again when it breaks
//! - [`stream`] asks for reports and reads them
//! - [`sight`] is what the reports have told about a document

mod listener;
mod sight;
mod stream;

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::config::FirestoreConfig;
use super::connections::Connections;
use crate::backend::watch::{Changes, KeyWatch, Registry, Watches};
use crate::backend::{Warnings, Watch};
use sight::Sight;

/// The delays of watching, which tests shorten or lengthen.
pub(super) struct WatchPolicy {
    /// How long a stream without documents stays open, because waiters often come back.
    pub(super) linger: Duration,
    /// The pause before a server that refuses to listen is asked again.
    pub(super) retry_refused: Duration,
    /// How often to check for locks that expired or still seem free.
    pub(super) look_again: Duration,
}

impl Default for WatchPolicy {
    fn default() -> Self {
        Self {
            linger: Duration::from_secs(10),
            retry_refused: Duration::from_secs(60),
            look_again: Duration::from_secs(1),
        }
    }
}

/// All watches of a backend. They end when it is dropped.
pub(super) struct Watcher(Arc<Shared>);

struct Shared {
    /// Dropped with the backend.
    connections: Weak<Connections>,
    config: Arc<FirestoreConfig>,
    warnings: Warnings,
    policy: WatchPolicy,
    state: Mutex<State>,
    /// Notified when documents are added or removed.
    documents_changed: Notify,
    closed: CancellationToken,
}

#[derive(Default)]
struct State {
    documents: Registry<DocumentId, Document>,
    has_listener: bool,
    /// When the next stream may be opened. A listener that starts anew waits as well.
    not_before: Option<Instant>,
    /// Whether a warning was printed that the server refuses to listen.
    has_warned: bool,
}

type DocumentId = Arc<str>;

#[derive(Default)]
struct Document {
    /// The document's number on the stream. It gets a new one each time it is watched anew, so that the
    /// server sends its content again.
    target: Option<i32>,
    sight: Sight,
}

impl Watcher {
    pub(super) fn new(
        connections: &Arc<Connections>,
        warnings: Warnings,
        policy: WatchPolicy,
    ) -> Self {
        Self(Arc::new(Shared {
            connections: Arc::downgrade(connections),
            config: Arc::clone(&connections.config),
            warnings,
            policy,
            state: Mutex::default(),
            documents_changed: Notify::new(),
            closed: CancellationToken::new(),
        }))
    }

    pub(super) fn watch(&self, document_id: String) -> Box<dyn Watch> {
        Box::new(KeyWatch::new(&self.0, document_id.into()))
    }

    pub(super) fn close(&self) {
        self.0.state.lock().documents.close();
        self.0.closed.cancel();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.close();
    }
}

impl Watches for Shared {
    type Key = DocumentId;

    fn join(self: &Arc<Self>, id: &DocumentId) -> Option<Changes> {
        let mut state = self.state.lock();
        let (changes, document) = state.documents.join(Arc::clone(id))?;
        if let Sight::Free = document.sight {
            changes.mark_changed();
        }
        if !std::mem::replace(&mut state.has_listener, true) {
            tokio::spawn(listener::run(Arc::clone(self)));
        }
        self.documents_changed.notify_one();
        Some(changes)
    }

    fn leave(&self, id: &DocumentId, changes: &Changes) {
        self.state.lock().documents.leave(id, changes);
        self.documents_changed.notify_one();
    }
}

impl Shared {
    /// Lets the listener end if no document is watched. Returns whether it has to.
    fn stop_if_unwatched(&self) -> bool {
        let mut state = self.state.lock();
        state.has_listener = !state.documents.is_empty();
        !state.has_listener
    }

    /// Changes what is known of documents with `change`, which returns whether to wake the watches of a
    /// document.
    fn update(&self, mut change: impl FnMut(&str, &mut Document) -> bool) {
        let mut state = self.state.lock();
        let woken = |id: &DocumentId, document: &mut Document| change(id, document);
        let wake_up = state.documents.wake_up_where(woken);
        drop(state);
        wake_up.send();
    }
}
