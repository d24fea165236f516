//! An acquire that waits for others which are acquiring the same key.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::SimpleQueryRow;

use super::connections::{Connections, RequestKind};
use super::sharing;
use super::sql::key::StoredKey;
use super::sql::{Arg, Call, Statement};
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
pub(super) async fn acquire_in_turn(
    connections: &Connections,
    lock: &NewLock,
    deadline: Instant,
) -> Result<SimpleQueryRow> {
    let args = NewLock::args(&[lock]);
    let turn = Turn {
        lock,
        row_id: lock.lock_id,
        locks_row: false,
        acquire: (&connections.statements().acquire, &args),
    };
    turn.take(connections, deadline).await
}

/// Acquires a share of the key if fewer than `limit` others hold it. Returns the row of
/// `acquire_share.sql`.
pub(super) async fn acquire_share_in_turn(
    connections: &Connections,
    lock: &NewLock,
    limit: u32,
    deadline: Instant,
) -> Result<SimpleQueryRow> {
    let record_id = sharing::new_record_id();
    let args = [
        Arg::Text(&lock.stored.key),
        Arg::Text(lock.lock_id.as_str()),
        Arg::Int(lock.ttl.ms()),
        Arg::Text(&lock.stored.user_key),
        Arg::Int(limit.into()),
        Arg::Text(record_id.as_str()),
        Arg::Text(lock.label.as_ref().map_or("", HolderLabel::as_str)),
    ];
    let turn = Turn {
        lock,
        row_id: record_id,
        locks_row: true,
        acquire: (&connections.statements().shares.acquire, &args),
    };
    turn.take(connections, deadline).await
}

/// An acquire that takes its turn.
///
/// Acquires of ours wait for each other. The key may be contested all the same: another session holds the
/// advisory lock with which other implementations of the stored format exclude each other. See
/// `take_advisory_lock.sql` and `check_contested.sql`.
struct Turn<'a> {
    lock: &'a NewLock,
    /// The lockId of the row that is stored if the key has none.
    row_id: LockId,
    /// Whether the acquire must have locked the row before.
    locks_row: bool,
    acquire: (&'a Statement, &'a [Arg<'a>]),
}

impl Turn<'_> {
    /// Returns the row of the statement that acquires.
    async fn take(&self, connections: &Connections, deadline: Instant) -> Result<SimpleQueryRow> {
        let statements = connections.statements();
        let NewLock {
            stored, lock_id, ..
        } = self.lock;
        let key = Arg::Text(&stored.key);
        let new_row = [
            key.clone(),
            Arg::Text(self.row_id.as_str()),
            Arg::Text(&stored.user_key),
        ];
        let turn = [key.clone(), Arg::TimeLeft];
        let key = [key];
        let take_advisory_lock = (&statements.take_advisory_lock, &turn[..]);
        let lock_row = (&statements.lock_row, &key[..]);
        let if_uncontested = match self.locks_row {
            true => vec![take_advisory_lock, lock_row, self.acquire],
            false => vec![take_advisory_lock, self.acquire],
        };
        let reserve_row = &[(&statements.reserve_row, &new_row[..])][..];
        let even_if_contested = &[
            take_advisory_lock,
            lock_row,
            (&statements.check_contested, &key[..]),
            self.acquire,
        ][..];
        let run = async |call: Call<'_>| -> Result<Option<SimpleQueryRow>> {
            let kind = RequestKind::Acquire;
            let mut rows = connections.send(kind, deadline, call).await?;
            Ok(take_row(&mut rows, lock_id))
        };

        let started = Instant::now();
        loop {
            if let Some(row) = run(&if_uncontested).await? {
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
