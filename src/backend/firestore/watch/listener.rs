//! The task that keeps a stream open while documents are watched.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tonic::Code;

use super::Shared;
use super::sight::Sight;
use super::stream::{self, Ended};
use crate::backend::firestore::error::code_name;
use crate::backend::firestore::retry::back_off;

const MAX_BACK_OFF: Duration = Duration::from_secs(10);
/// A stream that lasted this long counts as a success: its end does not slow down the next one.
const STEADY: Duration = Duration::from_secs(30);

/// How soon to reconnect. It outlives the task, so that the next waiter does not reconnect sooner.
#[derive(Default)]
pub(super) struct Pace {
    failures: u32,
    not_before: Option<Instant>,
    has_warned: bool,
}

/// Runs until no document is watched, or the watcher is closed.
pub(super) async fn run(shared: Arc<Shared>) {
    let listening = async {
        while shared.wait_for_turn().await {
            let started = Instant::now();
            let ended = shared.listen_once().await;
            shared.forget_sights();
            shared.set_pace(&ended, started);
        }
    };
    shared.closed.run_until_cancelled(listening).await;
}

impl Shared {
    /// Waits until a stream may be opened. Returns `false` if no document is watched any more.
    async fn wait_for_turn(&self) -> bool {
        let not_before = self.state.lock().pace.not_before;
        loop {
            if self.stop_if_unwatched() {
                return false;
            }
            let Some(not_before) = not_before else {
                return true;
            };
            tokio::select! {
                () = sleep_until(not_before) => return true,
                () = self.documents_changed.notified() => {}
            }
        }
    }

    async fn listen_once(&self) -> Ended {
        let Some(connections) = self.connections.upgrade() else {
            return Ended::Lost;
        };
        let connected = connections.connection().await;
        // The backend must not live on for as long as the stream does.
        drop(connections);
        match connected {
            Ok(connection) => stream::listen(self, &connection).await,
            Err(_) => Ended::Lost,
        }
    }

    /// Called when the stream is gone, so that what is known may be out of date.
    fn forget_sights(&self) {
        for (_, document) in self.state.lock().documents.iter() {
            document.sight = Sight::Unknown;
        }
    }

    fn set_pace(&self, ended: &Ended, started: Instant) {
        let now = Instant::now();
        let pace = &mut self.state.lock().pace;
        if now - started > STEADY {
            pace.failures = 0;
        }
        pace.not_before = match ended {
            Ended::Unwatched => {
                pace.failures = 0;
                None
            }
            Ended::Lost => {
                pace.failures += 1;
                Some(now + back_off(pace.failures, MAX_BACK_OFF))
            }
            Ended::Refused(code) => {
                if !std::mem::replace(&mut pace.has_warned, true) {
                    self.warn_of_refusal(*code);
                }
                Some(now + self.policy.retry_refused)
            }
        };
    }

    fn warn_of_refusal(&self, code: Code) {
        let place = self.config.place(None);
        self.warnings.debug(&format!(
            "{place} does not let this client listen for changes ({}): waiters retry at intervals instead",
            code_name(code)
        ));
    }
}
