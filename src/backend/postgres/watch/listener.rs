//! The connection that listens: it is made when somebody waits, gives a sign for each key that is
//! waited for, and is closed some time after the last has gone.
//!
//! The sign comes before the waiter's next attempt: a release that the attempt does not see finds
//! the sign, and notifies. See `tell_waiters.sql`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::SimpleQueryRow;
use tokio_util::sync::CancellationToken;

use super::proof::prove;
use super::{Shared, State};
use crate::backend::Warnings;
use crate::backend::postgres::connect::{Ear, Session, first_of};
use crate::backend::postgres::sql::literal;
use crate::error::{Error, Result};

/// How long the connection outlives the last watch.
const LINGER: Duration = Duration::from_secs(10);
/// How often an idle connection is asked whether it is still there.
const CHECK_EVERY: Duration = Duration::from_secs(30);
/// How long before an unfit connection is tried again.
const UNFIT_PAUSE: Duration = Duration::from_secs(60);
const OPEN_TIMEOUT: Duration = Duration::from_secs(20);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How soon to ask again for a sign that a release was in the way of: it is a matter of microseconds.
const SIGN_PAUSE: Duration = Duration::from_millis(10);
/// Unless it is told otherwise the server has room for 64 locks for each connection that it allows.
/// Who listens has two connections at least, so that signs alone never fill it. Who gets no sign
/// polls.
const MAX_SIGNS: usize = 100;

/// Until nobody waits any more.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let not_before = shared.state().not_before.unwrap_or_else(Instant::now);
        tokio::select! {
            () = shared.closed.cancelled() => {}
            () = sleep_until(not_before) => {}
        }
        if shared.state().retire_listener() {
            return;
        }
        let started = Instant::now();
        // Even when all is closed meanwhile this is done to its end: it tidies up what it proved
        // the connection with.
        let unfit = match timeout(OPEN_TIMEOUT, Listener::open(&shared)).await {
            Ok(Ok(Some(listener))) => {
                if listener.serve().await == End::Unneeded {
                    continue;
                }
                false
            }
            Ok(Ok(None)) => true,
            Ok(Err(_)) | Err(_) => false,
        };
        if started.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        let mut state = shared.state();
        state.forget_signs();
        if unfit {
            complain(&mut state, &shared.warnings);
            state.not_before = Some(Instant::now() + UNFIT_PAUSE);
        } else {
            let random = 0.5 + rand::random::<f64>() / 2.0;
            state.not_before = Some(Instant::now() + pause.mul_f64(random));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

fn complain(state: &mut State, warnings: &Warnings) {
    if !std::mem::replace(&mut state.has_complained, true) {
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
    session: Session,
    /// Ends with the connection.
    gone: CancellationToken,
    /// The number of the server's process: no other may be asked for a sign.
    pid: String,
    /// The number of the table.
    table: String,
    signs: HashMap<String, i32>,
}

impl<'a> Listener<'a> {
    /// Nothing if it would not hear anything.
    async fn open(shared: &'a Arc<Shared>) -> Result<Option<Self>> {
        let (gone, heard) = (CancellationToken::new(), Arc::new(Notify::new()));
        let session = shared.client.connect(ear(shared, &gone, &heard)).await?;
        let Some(pid) = prove(&session, &shared.client, &heard).await? else {
            return Ok(None);
        };
        let table = format!("SELECT {}::regclass::oid", literal(&shared.table));
        let table = session.ask(&table).await?;
        let table = first_of(&table).ok_or_else(lost)?.to_owned();
        session.ask(&format!("LISTEN syncguard_{table}")).await?;
        Ok(Some(Self {
            shared,
            session,
            gone,
            pid,
            table,
            signs: HashMap::new(),
        }))
    }

    async fn serve(mut self) -> End {
        loop {
            let Ok(complete) = self.update_signs().await else {
                return End::Lost;
            };
            let idle = self.shared.state().keys.is_empty();
            tokio::select! {
                biased;
                () = self.shared.closed.cancelled() => return End::Unneeded,
                () = self.gone.cancelled() => return End::Lost,
                () = self.shared.keys_changed.notified() => {}
                () = sleep(SIGN_PAUSE), if !complete => {}
                () = sleep(LINGER), if idle => return End::Unneeded,
                () = sleep(CHECK_EVERY) => {
                    if !self.is_there().await {
                        return End::Lost;
                    }
                }
            }
        }
    }

    /// Gives signs for the keys that are waited for now, and takes the others back. Whether every
    /// one that was asked for could be given.
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
            let answers = self.ask(&message).await?;
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

    fn unwanted(&self) -> Vec<(String, i32)> {
        let state = self.shared.state();
        let signs = self.signs.iter();
        signs
            .filter(|(key, _)| !state.keys.contains_key(*key))
            .map(|(key, hash)| (key.clone(), *hash))
            .collect()
    }

    fn missing(&self, most: usize) -> Vec<String> {
        let state = self.shared.state();
        let keys = state.keys.keys();
        keys.filter(|key| !self.signs.contains_key(*key))
            .take(most)
            .cloned()
            .collect()
    }

    /// From now on, who waits for these keys is told.
    fn announce(&self) {
        let mut state = self.shared.state();
        for (key, hash) in &self.signs {
            if let Some(watched) = state.keys.get_mut(key)
                && watched.sign.is_none()
            {
                watched.sign = Some(*hash);
                watched.news.send_replace(());
            }
        }
    }

    /// Whether the connection works, and the table is still the same one.
    async fn is_there(&self) -> bool {
        let (table, name) = (&self.table, literal(&self.shared.table));
        let question = format!("SELECT to_regclass({name})::oid = {table}");
        self.ask(&question)
            .await
            .is_ok_and(|answer| first_of(&answer) == Some("t"))
    }

    async fn ask(&self, message: &str) -> Result<Vec<SimpleQueryRow>> {
        timeout(ANSWER_TIMEOUT, self.session.ask(message))
            .await
            .unwrap_or_else(|_| Err(lost()))
    }
}

fn ear(shared: &Arc<Shared>, gone: &CancellationToken, heard: &Arc<Notify>) -> Ear {
    let (shared, heard) = (Arc::downgrade(shared), Arc::clone(heard));
    let end = gone.clone().drop_guard();
    Box::new(move |notification| {
        let _dropped_with_the_connection = &end;
        match (notification.payload().parse(), shared.upgrade()) {
            (Ok(hash), Some(shared)) => shared.tell(hash),
            // That of the proof has no hash.
            _ => heard.notify_one(),
        }
    })
}

/// The hash of the key whose sign was given.
fn given(answer: &SimpleQueryRow) -> Option<i32> {
    match (answer.try_get(0), answer.try_get(1)) {
        (Ok(Some(hash)), Ok(Some("t"))) => hash.parse().ok(),
        _ => None,
    }
}

fn lost() -> Error {
    Error::unavailable("The connection to PostgreSQL was lost")
}
