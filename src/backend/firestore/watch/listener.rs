//! The task that keeps a stream open while documents are watched.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tonic::Code;

use super::stream::{self, Ended};
use super::{Document, Shared};
use crate::backend::firestore::error::code_name;

/// A stream that is lost sooner than this is not replaced before, because each one costs billed reads.
const MIN_LIFE: Duration = Duration::from_secs(1);

/// Runs until no document is watched, or the watcher is closed.
pub(super) async fn run(shared: Arc<Shared>) {
    let listening = async {
        while shared.wait_for_turn().await {
            let started = Instant::now();
            let ended = shared.listen_once().await;
            let mut state = shared.state.lock();
            state.not_before = Some(started + MIN_LIFE);
            if let Ended::Refused(code) = ended {
                state.not_before = Some(Instant::now() + shared.policy.retry_refused);
                if !std::mem::replace(&mut state.has_warned, true) {
                    shared.warn_of_refusal(code);
                }
            }
            // What is known may be out of date.
            for (_, document) in state.documents.iter() {
                *document = Document::default();
            }
        }
    };
    shared.closed.run_until_cancelled(listening).await;
}

impl Shared {
    /// Waits until a stream may be opened. Returns `false` if no document is watched any more.
    async fn wait_for_turn(&self) -> bool {
        let not_before = self.state.lock().not_before;
        let may_open = sleep_until(not_before.unwrap_or_else(Instant::now));
        tokio::pin!(may_open);
        loop {
            if self.stop_if_unwatched() {
                return false;
            }
            tokio::select! {
                () = &mut may_open => return true,
                () = self.documents_changed.notified() => {}
            }
        }
    }

    async fn listen_once(&self) -> Ended {
        let Some(connections) = self.connections.upgrade() else {
            return Ended::Lost;
        };
        let connected = connections.connection_since(Instant::now()).await;
        // The backend must not live on for as long as the stream does.
        drop(connections);
        match connected {
            Ok(connection) => stream::listen(self, &connection).await,
            Err(_) => Ended::Lost,
        }
    }

    fn warn_of_refusal(&self, code: Code) {
        let place = self.config.place(None);
        self.warnings.debug(&format!(
            "{place} does not let this client listen for changes ({}): waiters retry at intervals instead",
            code_name(code)
        ));
    }
}
