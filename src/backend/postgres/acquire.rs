//! An acquire that waits for others which are acquiring the same key.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::SimpleQueryRow;

use super::connections::{Connections, RequestKind};
use super::sql::key::StoredKey;
use super::sql::{Arg, Call};
use crate::error::{Error, Result};
use crate::lock::{HolderLabel, LockId, Ttl};

/// How long a contested key is simply retried. Another implementation that is acquiring the key usually
/// finishes within a few milliseconds. After this time we check whether one really is.
const CHECK_CONTESTED_AFTER: Duration = Duration::from_millis(50);
/// The pause between two attempts, before jitter.
const PAUSE: Duration = Duration::from_millis(10);

/// A lock to be acquired.
pub(super) struct NewLock {
    pub stored: StoredKey,
    pub lock_id: LockId,
    pub ttl: Ttl,
    pub label: Option<HolderLabel>,
}

impl NewLock {
    /// Returns the arguments of `acquire.sql`. All locks of a backend have the same label.
    pub(super) fn args<'a>(locks: &[&'a Self]) -> Vec<Arg<'a>> {
        let texts = |text: fn(&'a Self) -> &'a str| {
            Arg::Texts(locks.iter().map(|lock| text(lock)).collect())
        };
        let mut args = vec![
            texts(|lock| &lock.stored.key),
            texts(|lock| lock.lock_id.as_str()),
            Arg::Ints(locks.iter().map(|lock| lock.ttl.ms()).collect()),
            texts(|lock| &lock.stored.user_key),
            Arg::TimeLeft,
        ];
        let label = locks.first().and_then(|lock| lock.label.as_ref());
        args.extend(label.map(|label| Arg::Text(label.as_str())));
        args
    }
}

/// Acquires the lock if it is free, before `deadline`. Returns the row of `acquire.sql`.
///
/// Acquires of ours wait for each other. The key may be contested all the same: another session holds the
/// advisory lock with which other implementations of the stored format exclude each other. See
/// `take_advisory_lock.sql` and `check_contested.sql`.
pub(super) async fn acquire_in_turn(
    connections: &Connections,
    lock: &NewLock,
    deadline: Instant,
) -> Result<SimpleQueryRow> {
    let statements = connections.statements();
    let args = NewLock::args(&[lock]);
    let key = Arg::Text(&lock.stored.key);
    let new_row = [
        key.clone(),
        Arg::Text(lock.lock_id.as_str()),
        Arg::Text(&lock.stored.user_key),
    ];
    let turn = [key.clone(), Arg::TimeLeft];
    let key = [key];
    let take_advisory_lock = (&statements.take_advisory_lock, &turn[..]);
    let acquire = (&statements.acquire, &args[..]);
    let if_uncontested = &[take_advisory_lock, acquire][..];
    let reserve_row = &[(&statements.reserve_row, &new_row[..])][..];
    let even_if_contested = &[
        take_advisory_lock,
        (&statements.lock_row, &key[..]),
        (&statements.check_contested, &key[..]),
        acquire,
    ][..];
    let run = async |call: Call<'_>| -> Result<Option<SimpleQueryRow>> {
        let kind = RequestKind::Acquire;
        let mut rows = connections.send(kind, deadline, call).await?;
        Ok(take_row(&mut rows, &lock.lock_id))
    };

    let started = Instant::now();
    loop {
        if let Some(row) = run(if_uncontested).await? {
            return Ok(row);
        }
        if started.elapsed() >= CHECK_CONTESTED_AFTER {
            run(reserve_row).await?;
            if let Some(row) = run(even_if_contested).await? {
                return Ok(row);
            }
        }
        sleep(PAUSE.mul_f64(rand::random_range(0.5..1.5))).await;
        if !connections.has_time(deadline) {
            return Err(contested());
        }
    }
}

/// Takes the row with this lockId out of an answer.
pub(super) fn take_row(rows: &mut Vec<SimpleQueryRow>, lock_id: &LockId) -> Option<SimpleQueryRow> {
    let is_its =
        |row: &SimpleQueryRow| row.try_get("lock_id").ok().flatten() == Some(lock_id.as_str());
    let index = rows.iter().position(is_its)?;
    Some(rows.swap_remove(index))
}

fn contested() -> Error {
    Error::timeout(
        "Another program that shares the tables was acquiring this key for the whole time and holds \
         the advisory lock pg_advisory_xact_lock(hashtext(key)): find its session in pg_locks",
    )
}
