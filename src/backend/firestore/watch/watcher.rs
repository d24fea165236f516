//! Decides when to listen: while there are waiters, and a little longer.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::documents::Documents;
use super::key_watch::KeyWatch;
use super::sight::Sight;
use super::stream::{self, Ended};
use crate::backend::firestore::FirestoreConfig;
use crate::backend::firestore::connections::Connections;
use crate::backend::firestore::error::code_name;
use crate::backend::firestore::retry::back_off;
use crate::backend::{Warnings, Watch};

const MAX_BACK_OFF: Duration = Duration::from_secs(10);
/// A stream that lasted this long counts as a success: its end does not slow down the next one.
const STEADY: Duration = Duration::from_secs(30);

/// The delays of watching, which tests shorten.
pub(crate) struct WatchPolicy {
    /// How long a stream without documents stays open, because waiters often come back.
    pub(crate) linger: Duration,
    /// How long to wait before asking again a server that refuses to listen.
    pub(crate) retry_refused: Duration,
    /// How long a lock seems free before it is worth another attempt. Somebody may have held it
    /// between two pushes, and the server need not report that.
    pub(crate) second_look: Duration,
    /// Whether to print why there are no pushes.
    pub(crate) debug: bool,
}

impl WatchPolicy {
    pub(crate) fn usual() -> Self {
        Self {
            linger: Duration::from_secs(10),
            retry_refused: Duration::from_secs(60),
            second_look: Duration::from_secs(1),
            debug: std::env::var("SYNCGUARD_DEBUG").is_ok_and(|value| value == "true"),
        }
    }
}

/// The watcher of one backend. Its task ends when it is dropped.
pub(crate) struct Watcher(Arc<Listening>);

/// The state that waiters, the watcher and its task share.
pub(super) struct Listening {
    connections: Weak<Connections>,
    pub(super) config: Arc<FirestoreConfig>,
    pub(super) documents: Documents,
    /// Notified when documents are added or removed.
    pub(super) updated: Notify,
    pub(super) policy: WatchPolicy,
    closed: CancellationToken,
    pace: Mutex<Pace>,
    warnings: Warnings,
}

/// How often to reconnect. It is kept while there are no waiters, so that the next waiter does not
/// reconnect sooner.
#[derive(Default)]
struct Pace {
    failures: u32,
    not_before: Option<Instant>,
    refusal_told: bool,
}

impl Watcher {
    pub(crate) fn new(
        connections: &Arc<Connections>,
        warnings: Warnings,
        policy: WatchPolicy,
    ) -> Self {
        Self(Arc::new(Listening {
            connections: Arc::downgrade(connections),
            config: Arc::clone(&connections.config),
            documents: Documents::default(),
            updated: Notify::new(),
            policy,
            closed: CancellationToken::new(),
            pace: Mutex::default(),
            warnings,
        }))
    }

    pub(crate) fn watch(&self, document_id: String) -> Box<dyn Watch> {
        Box::new(KeyWatch::new(Arc::clone(&self.0), document_id))
    }

    pub(crate) fn close(&self) {
        self.0.closed.cancel();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.close();
    }
}

impl Listening {
    pub(super) fn join(self: &Arc<Self>, document: &Arc<str>) -> Receiver<Sight> {
        let (sight, must_listen) = self.documents.join(document);
        if must_listen {
            let listening = Arc::clone(self);
            tokio::spawn(async move {
                let closed = listening.closed.clone();
                closed.run_until_cancelled(listening.run()).await;
            });
        }
        self.updated.notify_one();
        sight
    }

    pub(super) fn leave(&self, document: &str) {
        self.documents.leave(document);
        self.updated.notify_one();
    }

    async fn run(&self) {
        while self.wait_for_turn().await {
            let started = Instant::now();
            let Some(connections) = self.connections.upgrade() else {
                return;
            };
            let ended = match connections.connection().await {
                Ok(connection) => {
                    let place = connections.dialer.place();
                    drop(connections);
                    let ended = stream::listen(self, &connection).await;
                    if let Ended::Refused(code) = ended {
                        self.tell_of_refusal(&place, code);
                    }
                    ended
                }
                Err(_) => Ended::Lost,
            };
            self.documents.forget_all();
            self.set_pace(&ended, started);
        }
    }

    /// Waits until a stream may be opened. Returns `false` if there are no waiters left.
    async fn wait_for_turn(&self) -> bool {
        let not_before = self.pace.lock().not_before;
        loop {
            if self.documents.stop_if_unwatched() {
                return false;
            }
            let Some(not_before) = not_before else {
                return true;
            };
            tokio::select! {
                () = sleep_until(not_before) => return true,
                () = self.updated.notified() => {}
            }
        }
    }

    fn set_pace(&self, ended: &Ended, started: Instant) {
        let now = Instant::now();
        let mut pace = self.pace.lock();
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
            Ended::Refused(_) => Some(now + self.policy.retry_refused),
        };
    }

    fn tell_of_refusal(&self, place: &str, code: Code) {
        if self.policy.debug && !std::mem::replace(&mut self.pace.lock().refusal_told, true) {
            self.warnings.warn(&format!(
                "{place} does not let this client listen for changes ({}): waiting callers try again and again instead",
                code_name(code)
            ));
        }
    }
}
