//! An acquire in a transaction of its own.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::SimpleQueryRow;

use super::backend::{acquired, text, unexpected};
use super::batch::NewLock;
use super::connections::{Connections, RequestKind};
use super::sql::Arg;
use crate::backend::AcquireOutcome;
use crate::error::{Error, Result};

/// How long a contested key is retried before it is found out whether another implementation is
/// really acquiring it. If one is, it usually finishes within a few milliseconds.
const CHECK_CONTESTED_AFTER: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(10);

/// Acquires the lock if it is free, before `deadline`.
///
/// The key may be contested: another session holds the advisory lock with which other
/// implementations of the stored format exclude each other. See `take_advisory_lock.sql` and
/// `acquire_contested.sql`.
pub(super) async fn acquire(
    connections: &Connections,
    lock: &NewLock,
    deadline: Instant,
) -> Result<AcquireOutcome> {
    let started = Instant::now();
    loop {
        if let Some(outcome) = try_acquire(connections, lock, deadline).await? {
            return Ok(outcome);
        }
        if started.elapsed() >= CHECK_CONTESTED_AFTER
            && let Some(outcome) = acquire_contested(connections, lock, deadline).await?
        {
            return Ok(outcome);
        }
        sleep(PAUSE.mul_f64(rand::random_range(0.5..1.5))).await;
        if !connections.has_time(deadline) {
            return Err(contested());
        }
    }
}

/// Returns None, and has done nothing, if the key is contested.
async fn try_acquire(
    connections: &Connections,
    lock: &NewLock,
    deadline: Instant,
) -> Result<Option<AcquireOutcome>> {
    let statements = connections.statements();
    let key = Arg::Text(&lock.stored.key);
    let call = &[
        (&statements.take_advisory_lock, &[key, Arg::TimeLeft][..]),
        (&statements.acquire, &acquire_args(lock)[..]),
    ];
    let rows = connections.run(RequestKind::Acquire, deadline, call);
    outcome(rows.await?)
}

/// Like [`try_acquire`], but succeeds if the session that holds the advisory lock does not use the
/// lock table.
async fn acquire_contested(
    connections: &Connections,
    lock: &NewLock,
    deadline: Instant,
) -> Result<Option<AcquireOutcome>> {
    let statements = connections.statements();
    let key = Arg::Text(&lock.stored.key);
    let lock_id = Arg::Text(lock.lock_id.as_str());
    let user_key = Arg::Text(&lock.stored.user_key);
    let reserve = &[(&statements.reserve_row, &[key, lock_id, user_key][..])];
    connections
        .run_unprepared(RequestKind::Acquire, deadline, reserve)
        .await?;
    let call = &[
        (&statements.take_advisory_lock, &[key, Arg::TimeLeft][..]),
        (&statements.lock_row, &[key][..]),
        (&statements.acquire_contested, &acquire_args(lock)[..]),
    ];
    let rows = connections.run_unprepared(RequestKind::Acquire, deadline, call);
    outcome(rows.await?)
}

/// The arguments of `acquire.sql`.
fn acquire_args(lock: &NewLock) -> Vec<Arg<'_>> {
    let mut args = vec![
        Arg::Text(&lock.stored.key),
        Arg::Text(lock.lock_id.as_str()),
        Arg::Int(lock.ttl.ms()),
        Arg::Text(&lock.stored.user_key),
    ];
    args.extend(lock.label.iter().map(|label| Arg::Text(label.as_str())));
    args
}

/// Reads the answer of the last statement. Returns None if the key is contested.
fn outcome(rows: Vec<SimpleQueryRow>) -> Result<Option<AcquireOutcome>> {
    let row = rows.last().ok_or_else(|| unexpected().outcome_unknown())?;
    if text(row, 0) == Ok("contested") {
        return Ok(None);
    }
    acquired(row).map(Some)
}

fn contested() -> Error {
    Error::timeout(
        "Another program that shares the tables was acquiring this key all the time: \
         it holds the advisory lock pg_advisory_xact_lock(hashtext(key))",
    )
}
