//! The connection that listens. It is opened when the first watch begins, and closed some time after
//! the last has ended. For each watched key it holds a shared advisory lock, the sign that somebody
//! waits.
//!
//! The sign is given before the waiter's next attempt. So a release that comes too late for that
//! attempt finds the sign and sends a notification. See `notify_waiters.sql`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::SimpleQueryRow;
use tokio_util::sync::CancellationToken;

use super::proof::prove;
use super::{Shared, Sign, State};
use crate::backend::Warnings;
use crate::backend::postgres::connection::{NotificationHandler, first_of};
use crate::backend::postgres::connections::DedicatedConnection;
use crate::backend::postgres::sql::literal;
use crate::error::{Error, Result};

/// How long the connection outlives the last watch.
const LINGER: Duration = Duration::from_secs(10);
/// How often an idle connection is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// How long to wait before trying again after notifications did not arrive.
const UNFIT_PAUSE: Duration = Duration::from_secs(60);
const OPEN_TIMEOUT: Duration = Duration::from_secs(20);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// How soon a sign is tried again that a release was in the way of, which takes microseconds.
const SIGN_PAUSE: Duration = Duration::from_millis(10);
/// By default the server has room for 64 locks for each connection that it allows. A process that
/// listens has at least two connections, so signs alone never fill that room. Waiters without a sign
/// poll.
const MAX_SIGNS: usize = 100;

/// Keeps a connection that listens until nothing is watched any more.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let not_before = shared.state.lock().not_before.unwrap_or_else(Instant::now);
        tokio::select! {
            () = shared.closed.cancelled() => {}
            () = sleep_until(not_before) => {}
        }
        if shared.state.lock().stop_if_unwatched() {
            return;
        }
        let started = Instant::now();
        // This is not interrupted, even if the backend is closed meanwhile: it removes what the proof
        // left on the server.
        let unfit = match timeout(OPEN_TIMEOUT, Listener::open(&shared)).await {
            Ok(Ok(Some(listener))) => {
                if listener.listen().await == End::Unneeded {
                    continue;
                }
                false
            }
            Ok(Ok(None)) => true,
            Ok(Err(_)) | Err(_) => false,
        };
        if started.elapsed() > MAX_PAUSE {
            pause = FIRST_PAUSE;
        }
        let mut state = shared.state.lock();
        state.forget_signs();
        if unfit {
            warn_once(&mut state, &shared.warnings);
            state.not_before = Some(Instant::now() + UNFIT_PAUSE);
        } else {
            let random = 0.5 + rand::random::<f64>() / 2.0;
            state.not_before = Some(Instant::now() + pause.mul_f64(random));
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

fn warn_once(state: &mut State, warnings: &Warnings) {
    if !std::mem::replace(&mut state.has_warned, true) {
        warnings.debug(
            "Notifications of PostgreSQL do not arrive, probably because of a pooler: waiting is done by polling",
        );
    }
}

#[derive(PartialEq, Eq)]
enum End {
    Unneeded,
    Lost,
}

struct Listener<'a> {
    shared: &'a Shared,
    connection: DedicatedConnection,
    /// Cancelled when the connection ends.
    ended: CancellationToken,
    /// The id of the server's process. No other process may hold our signs.
    pid: String,
    /// The oid of the lock table.
    table: String,
    /// Keys and their hashes.
    signs: HashMap<String, i32>,
}

impl<'a> Listener<'a> {
    /// Returns None if notifications do not arrive.
    async fn open(shared: &'a Arc<Shared>) -> Result<Option<Self>> {
        let (ended, proven) = (CancellationToken::new(), Arc::new(Notify::new()));
        let connection = shared
            .connections
            .open_listener(notification_handler(shared, &ended, &proven))
            .await?;
        let Some(pid) = prove(&connection, &shared.connections, &proven).await? else {
            return Ok(None);
        };
        let table = format!("SELECT {}::regclass::oid", literal(&shared.table));
        let table = connection.query(&table).await?;
        let table = first_of(&table).ok_or_else(lost)?.to_owned();
        connection
            .query(&format!("LISTEN syncguard_{table}"))
            .await?;
        Ok(Some(Self {
            shared,
            connection,
            ended,
            pid,
            table,
            signs: HashMap::new(),
        }))
    }

    async fn listen(mut self) -> End {
        loop {
            let Ok(complete) = self.update_signs().await else {
                return End::Lost;
            };
            let idle = self.shared.state.lock().keys.is_empty();
            tokio::select! {
                biased;
                () = self.shared.closed.cancelled() => return End::Unneeded,
                () = self.ended.cancelled() => return End::Lost,
                () = self.shared.keys_changed.notified() => {}
                () = sleep(SIGN_PAUSE), if !complete => {}
                () = sleep(LINGER), if idle => return End::Unneeded,
                () = sleep(CHECK_INTERVAL) => {
                    if !self.is_usable().await {
                        return End::Lost;
                    }
                }
            }
        }
    }

    /// Gives signs for the keys that are watched now, and withdraws the others. Returns whether every
    /// sign that was tried could be given.
    async fn update_signs(&mut self) -> Result<bool> {
        let unwanted = self.unwanted();
        let missing = self.missing(MAX_SIGNS - (self.signs.len() - unwanted.len()));
        let (table, pid) = (&self.table, &self.pid);
        let mut message = String::new();
        for (_, hash) in &unwanted {
            message.push_str(&format!(
                "SELECT pg_advisory_unlock_shared({table}::oid::int4, {hash}) WHERE pg_backend_pid() = {pid};"
            ));
        }
        for key in &missing {
            let hash = format!("hashtext({})", literal(key));
            message.push_str(&format!(
                "SELECT {hash}, pg_try_advisory_lock_shared({table}::oid::int4, {hash}) WHERE pg_backend_pid() = {pid};"
            ));
        }
        let mut complete = true;
        if !message.is_empty() {
            let answers = self.query(&message).await?;
            if answers.len() != unwanted.len() + missing.len() {
                return Err(lost());
            }
            for (key, _) in &unwanted {
                self.signs.remove(key);
            }
            for (key, answer) in missing.into_iter().zip(&answers[unwanted.len()..]) {
                match given(answer) {
                    Some(hash) => drop(self.signs.insert(key, hash)),
                    None => complete = false,
                }
            }
        }
        self.announce();
        Ok(complete)
    }

    /// Returns the keys that have a sign and are not watched any more.
    fn unwanted(&self) -> Vec<(String, i32)> {
        let mut state = self.shared.state.lock();
        let signs = self.signs.iter();
        signs
            .filter(|(key, _)| state.keys.state_of(*key).is_none())
            .map(|(key, hash)| (key.clone(), *hash))
            .collect()
    }

    /// Returns the watched keys that have no sign.
    fn missing(&self, max: usize) -> Vec<String> {
        let mut state = self.shared.state.lock();
        let keys = state.keys.iter().map(|(key, _)| key);
        keys.filter(|key| !self.signs.contains_key(*key))
            .take(max)
            .cloned()
            .collect()
    }

    /// Lets waiters make an attempt, now that a release of their key notifies them.
    fn announce(&self) {
        let is_new = |key: &String, sign: &mut Sign| {
            let before = std::mem::replace(sign, self.signs.get(key).copied());
            before.is_none() && sign.is_some()
        };
        let wake_up = self.shared.state.lock().keys.wake_up_where(is_new);
        wake_up.send();
    }

    /// Returns whether the connection works and the table is still the same one.
    async fn is_usable(&self) -> bool {
        let (table, name) = (&self.table, literal(&self.shared.table));
        let query = format!("SELECT to_regclass({name})::oid = {table}");
        self.query(&query)
            .await
            .is_ok_and(|answer| first_of(&answer) == Some("t"))
    }

    async fn query(&self, message: &str) -> Result<Vec<SimpleQueryRow>> {
        timeout(ANSWER_TIMEOUT, self.connection.query(message))
            .await
            .unwrap_or_else(|_| Err(lost()))
    }
}

/// `ended` is cancelled when the handler is dropped, which happens when the connection ends.
fn notification_handler(
    shared: &Arc<Shared>,
    ended: &CancellationToken,
    proven: &Arc<Notify>,
) -> NotificationHandler {
    let (shared, proven) = (Arc::downgrade(shared), Arc::clone(proven));
    let end = ended.clone().drop_guard();
    Box::new(move |notification| {
        let _dropped_with_the_handler = &end;
        match (notification.payload().parse(), shared.upgrade()) {
            (Ok(hash), Some(shared)) => shared.wake_waiters(hash),
            // The notification of the proof has no hash.
            _ => proven.notify_one(),
        }
    })
}

/// Returns the hash of the key if its sign was given.
fn given(answer: &SimpleQueryRow) -> Option<i32> {
    match (answer.try_get(0), answer.try_get(1)) {
        (Ok(Some(hash)), Ok(Some("t"))) => hash.parse().ok(),
        _ => None,
    }
}

fn lost() -> Error {
    Error::unavailable("The connection to PostgreSQL was lost")
}
