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
use super::{Shared, State};
use crate::backend::postgres::connection::{Connection, NotificationHandler, first_of};
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
const MAX_PAUSE: Duration = Duration::from_secs(1);
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
        {
            let mut state = shared.state.lock();
            state.has_listener = !state.keys.is_empty();
            if !state.has_listener {
                return;
            }
        }
        let started = Instant::now();
        // This is not interrupted, even if the backend is closed meanwhile: it removes what the proof
        // left on the server.
        let listener = timeout(OPEN_TIMEOUT, Listener::open(&shared)).await;
        let is_unfit = matches!(listener, Ok(Ok(None)));
        if let Ok(Ok(Some(listener))) = listener {
            listener.listen().await;
        }
        if started.elapsed() > MAX_PAUSE {
            pause = FIRST_PAUSE;
        }
        let mut state = shared.state.lock();
        state.signs.clear();
        if is_unfit {
            state.not_before = Some(Instant::now() + UNFIT_PAUSE);
            if !std::mem::replace(&mut state.has_warned, true) {
                shared.warnings.debug(
                    "Notifications of PostgreSQL do not arrive, probably because of a pooler: waiting is done by polling",
                );
            }
        } else {
            let random = 0.5 + rand::random::<f64>() / 2.0;
            state.not_before = Some(Instant::now() + pause.mul_f64(random));
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

struct Listener<'a> {
    shared: &'a Shared,
    connection: Connection,
    /// Cancelled when the connection ends.
    ended: CancellationToken,
    /// The id of the server's process. No other process may hold our signs.
    pid: String,
    /// The oid of the lock table.
    table: String,
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
        }))
    }

    /// Listens until the connection ends or is not needed any more.
    async fn listen(self) {
        loop {
            let Ok(is_complete) = self.update_signs().await else {
                return;
            };
            let is_idle = self.shared.state.lock().keys.is_empty();
            tokio::select! {
                biased;
                () = self.shared.closed.cancelled() => return,
                () = self.ended.cancelled() => return,
                () = self.shared.keys_changed.notified() => {}
                () = sleep(SIGN_PAUSE), if !is_complete => {}
                () = sleep(LINGER), if is_idle => return,
                () = sleep(CHECK_INTERVAL) => {
                    if !self.is_usable().await {
                        return;
                    }
                }
            }
        }
    }

    /// Gives signs for the keys that are watched now, and withdraws the others. Lets the waiters of a key
    /// with a new sign make an attempt, now that a release notifies them. Returns whether every sign that
    /// was tried could be given.
    async fn update_signs(&self) -> Result<bool> {
        let (unwanted, missing) = self.shared.state.lock().sign_changes();
        let (table, pid) = (&self.table, &self.pid);
        let mut message = String::new();
        for hash in &unwanted {
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
        if message.is_empty() {
            return Ok(true);
        }
        let mut answers = self.query(&message).await?;
        if answers.len() != unwanted.len() + missing.len() {
            return Err(lost());
        }
        let answers = answers.split_off(unwanted.len());
        let tried = missing.len();
        let given: HashMap<_, _> = missing
            .into_iter()
            .zip(&answers)
            .filter_map(|(key, answer)| Some((key, given(answer)?)))
            .collect();
        let is_complete = given.len() == tried;
        let mut state = self.shared.state.lock();
        let wake_up = state.keys.wake_up_where(|key, ()| given.contains_key(key));
        state.signs.extend(given);
        drop(state);
        wake_up.send();
        Ok(is_complete)
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

impl State {
    /// Takes the signs of keys that nobody watches any more, and returns their hashes. Returns also the
    /// watched keys that have no sign, as far as there is room for them.
    fn sign_changes(&mut self) -> (Vec<i32>, Vec<String>) {
        let Self { keys, signs, .. } = self;
        let unwanted = signs
            .extract_if(|key, _| keys.state_of(key).is_none())
            .map(|(_, hash)| hash)
            .collect();
        let missing = keys
            .iter()
            .map(|(key, ())| key)
            .filter(|key| !signs.contains_key(*key))
            .take(MAX_SIGNS.saturating_sub(signs.len()))
            .cloned()
            .collect();
        (unwanted, missing)
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
