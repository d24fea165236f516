//! An acquire in a transaction of its own, for one that is not made in a batch.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::SimpleQueryRow;

use super::backend::{acquired, text, unexpected};
use super::batch::NewLock;
use super::connections::{Connections, RequestKind};
use super::sql::Arg;
use crate::backend::AcquireOutcome;
use crate::error::{Error, Result};

/// How long a contested key is simply retried. Another implementation that is acquiring the key usually
/// finishes within a few milliseconds. After this time we check whether one really is.
const CHECK_CONTESTED_AFTER: Duration = Duration::from_millis(50);
/// The pause between two attempts, before jitter.
const PAUSE: Duration = Duration::from_millis(10);

/// Acquires the lock if it is free, before `deadline`.
///
/// The key may be contested: another session holds the advisory lock with which other
/// implementations of the stored format exclude each other. See `take_advisory_lock.sql` and
/// `check_contested.sql`.
pub(super) async fn acquire(
    connections: &Connections,
    lock: &NewLock,
    deadline: Instant,
) -> Result<AcquireOutcome> {
    let statements = connections.statements();
    let key = Arg::Text(&lock.stored.key);
    let lock_id = Arg::Text(lock.lock_id.as_str());
    let user_key = Arg::Text(&lock.stored.user_key);
    let mut args = vec![key, lock_id, Arg::Int(lock.ttl.ms()), user_key];
    args.extend(lock.label.iter().map(|label| Arg::Text(label.as_str())));
    let take_advisory_lock = (&statements.take_advisory_lock, &[key, Arg::TimeLeft][..]);
    let reserve_row = &[(&statements.reserve_row, &[key, lock_id, user_key][..])];
    let if_uncontested = &[take_advisory_lock, (&statements.acquire, &args[..])];
    let even_if_contested = &[
        take_advisory_lock,
        (&statements.lock_row, &[key][..]),
        (&statements.check_contested, &[key][..]),
        (&statements.acquire, &args[..]),
    ];
    let run = async |call| connections.run(RequestKind::Acquire, deadline, call).await;

    let started = Instant::now();
    loop {
        if let Some(outcome) = outcome(run(if_uncontested).await?)? {
            return Ok(outcome);
        }
        if started.elapsed() >= CHECK_CONTESTED_AFTER {
            run(reserve_row).await?;
            if let Some(outcome) = outcome(run(even_if_contested).await?)? {
                return Ok(outcome);
            }
        }
        sleep(PAUSE.mul_f64(rand::random_range(0.5..1.5))).await;
        if !connections.has_time(deadline) {
            return Err(contested());
        }
    }
}

/// Reads the answer of the last statement. Returns None if the key is contested: nothing was done.
fn outcome(rows: Vec<SimpleQueryRow>) -> Result<Option<AcquireOutcome>> {
    let row = rows.last().ok_or_else(|| unexpected().outcome_unknown())?;
    if text(row, 0) == Ok("contested") {
        return Ok(None);
    }
    acquired(row).map(Some)
}

fn contested() -> Error {
    Error::timeout(
        "Another program that shares the tables was acquiring this key for the whole time and holds \
         the advisory lock pg_advisory_xact_lock(hashtext(key)): find its session in pg_locks",
    )
}
