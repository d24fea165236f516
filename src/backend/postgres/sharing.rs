//! Shared keys. Their holders are rows of a table of their own. The row in the lock table is a record with a
//! lockId that nobody holds, which expires with the last holder, so that programs which know only exclusive
//! locks find the key locked.
//!
//! The lockIds of holders and of records differ from those of exclusive locks in the bits that are not
//! random. So statements for exclusive locks never touch the table of holders, which older databases do
//! not have, and a statement for holders runs only when a lockId asks for it. If another implementation
//! made such a lockId for a lock of its own, the statement finds that lock.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_postgres::SimpleQueryRow;

use super::acquire::{NewLock, acquire_share_in_turn};
use super::backend::{self, damaged, unexpected};
use super::connections::{Connections, RequestKind};
use super::error;
use super::sql::{Arg, Statement};
use crate::backend::{
    AcquireOutcome, ExtendOutcome, HOLDER_BITS, LockRecord, Miss, ReleaseOutcome,
};
use crate::error::Result;
use crate::lock::share::MARK_LEASE_MS;
use crate::lock::{LockId, Share, Ttl};

/// The spare bits of the lockId of a record.
const RECORD_BITS: usize = 2;

/// How often the remains of dead holders are removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

pub(super) fn new_record_id() -> LockId {
    LockId::generate().with_spare_bits(RECORD_BITS)
}

/// Whether the lockId is that of a holder of a shared key.
pub(super) fn is_holder(lock_id: &LockId) -> bool {
    lock_id.spare_bits() == HOLDER_BITS
}

/// Whether the stored lockId is that of a record of a shared key.
pub(super) fn is_record(lock_id: &str) -> bool {
    has_bits(lock_id, &[RECORD_BITS])
}

/// Whether the stored lockId belongs to a shared key.
pub(super) fn is_shared(lock_id: &str) -> bool {
    has_bits(lock_id, &[HOLDER_BITS, RECORD_BITS])
}

fn has_bits(lock_id: &str, bits: &[usize]) -> bool {
    LockId::parse(lock_id).is_ok_and(|lock_id| bits.contains(&lock_id.spare_bits()))
}

/// The operations on shared keys.
pub(super) struct Sharing {
    connections: Arc<Connections>,
    /// When the remains of dead holders were removed the last time.
    swept: Mutex<Option<Instant>>,
}

impl Sharing {
    pub(super) fn new(connections: Arc<Connections>) -> Self {
        Self {
            connections,
            swept: Mutex::default(),
        }
    }

    pub(super) async fn acquire(&self, lock: &NewLock, limit: u32) -> Result<AcquireOutcome> {
        let deadline = self.connections.deadline();
        let row = acquire_share_in_turn(&self.connections, lock, limit, deadline).await?;
        self.sweep();
        backend::acquired(&row)
    }

    pub(super) async fn release(&self, lock_id: &LockId) -> Result<ReleaseOutcome> {
        let statement = &self.connections.statements().shares.release;
        let args = [Arg::Text(lock_id.as_str())];
        let kind = RequestKind::Release;
        match self.run_locked(kind, lock_id, statement, &args).await? {
            Some(row) => backend::released(&row),
            None => Ok(ReleaseOutcome::Missed(Miss::NotFound)),
        }
    }

    pub(super) async fn extend(&self, lock_id: &LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        let statement = &self.connections.statements().shares.extend;
        let args = [Arg::Text(lock_id.as_str()), Arg::Int(ttl.ms())];
        let kind = RequestKind::Extend;
        match self.run_locked(kind, lock_id, statement, &args).await? {
            Some(row) => backend::extended(&row),
            None => Ok(ExtendOutcome::Missed(Miss::NotFound)),
        }
    }

    /// Runs a statement about a holder with its record locked. None if there is no table of holders.
    async fn run_locked(
        &self,
        kind: RequestKind,
        lock_id: &LockId,
        statement: &Statement,
        args: &[Arg<'_>],
    ) -> Result<Option<SimpleQueryRow>> {
        let connections = &self.connections;
        let lock_record = &connections.statements().shares.lock_record;
        let holder = [Arg::Text(lock_id.as_str())];
        let call = [(lock_record, &holder[..]), (statement, args)];
        let sent = connections.send(kind, connections.deadline(), &call).await;
        match rows_if_any(sent)? {
            Some(mut rows) => Ok(Some(rows.pop().ok_or_else(unexpected)?)),
            None => Ok(None),
        }
    }

    /// Leaves the mark of a waiting writer in a record. If that fails, readers go first: the writer's next
    /// attempt tries again.
    pub(super) async fn mark(&self, key: &str, mark: &LockId, deadline: Instant) {
        let statements = self.connections.statements();
        let args = [
            Arg::Text(key),
            Arg::Text(mark.as_str()),
            Arg::Int(MARK_LEASE_MS),
        ];
        let call = [
            (&statements.lock_row, &args[..1]),
            (&statements.shares.mark, &args[..]),
        ];
        let kind = RequestKind::Acquire;
        let _ = self.connections.send(kind, deadline, &call).await;
    }

    pub(super) async fn unmark(&self, key: &str, mark: &LockId) -> Result<()> {
        let statements = self.connections.statements();
        let args = [Arg::Text(key), Arg::Text(mark.as_str())];
        let call = [
            (&statements.lock_row, &args[..1]),
            (&statements.shares.unmark, &args[..]),
        ];
        let (kind, deadline) = (RequestKind::Release, self.connections.deadline());
        rows_if_any(self.connections.send(kind, deadline, &call).await).map(drop)
    }

    pub(super) async fn lookup_id(&self, lock_id: &LockId) -> Result<Option<LockRecord>> {
        let statement = &self.connections.statements().shares.lookup_id;
        let rows = self.read(statement, &[Arg::Text(lock_id.as_str())]).await?;
        rows.unwrap_or_default().first().map(record).transpose()
    }

    /// Returns rows of up to `limit` holders of these keys, in the order of the keys. The page begins after the
    /// lockId `after`, which is empty unless there is one key. None if there is no table of holders.
    pub(super) async fn list(
        &self,
        keys: &[&str],
        after: &str,
        limit: usize,
    ) -> Result<Option<Vec<SimpleQueryRow>>> {
        let statement = &self.connections.statements().shares.list;
        let args = [
            Arg::Texts(keys.to_vec()),
            Arg::Text(after),
            Arg::Int(limit as u64),
        ];
        self.read(statement, &args).await
    }

    /// Returns the holder that expires last. The outer option is None if there is no table of holders.
    pub(super) async fn lookup_key(&self, key: &str) -> Result<Option<Option<LockRecord>>> {
        let statement = &self.connections.statements().shares.lookup_key;
        let Some(rows) = self.read(statement, &[Arg::Text(key)]).await? else {
            return Ok(None);
        };
        rows.first().map(record).transpose().map(Some)
    }

    async fn read(
        &self,
        statement: &Statement,
        args: &[Arg<'_>],
    ) -> Result<Option<Vec<SimpleQueryRow>>> {
        let kind = RequestKind::Read;
        rows_if_any(self.connections.run(kind, statement, args).await)
    }

    /// Removes the remains of dead holders in the background, once in a while.
    fn sweep(&self) {
        {
            let mut swept = self.swept.lock();
            if swept.is_some_and(|swept| swept.elapsed() < SWEEP_INTERVAL) {
                return;
            }
            *swept = Some(Instant::now());
        }
        let connections = Arc::clone(&self.connections);
        tokio::spawn(async move {
            let statement = &connections.statements().shares.sweep;
            // A failure does not matter: a later sweep removes them.
            let _ = connections
                .run(RequestKind::Maintenance, statement, &[])
                .await;
        });
    }
}

/// Removes the holders of a record that was removed. If this fails, they are swept later.
pub(super) async fn remove_holders(connections: &Connections, key: &str, removed: &str) {
    if is_record(removed) {
        let statement = &connections.statements().shares.remove_holders;
        let args = [Arg::Text(key), Arg::Text(removed)];
        let kind = RequestKind::Maintenance;
        let _ = connections.run(kind, statement, &args).await;
    }
}

/// Reads a row of `live_shares.sql`.
pub(super) fn record(row: &SimpleQueryRow) -> Result<LockRecord> {
    Ok(LockRecord {
        share: share(row)?,
        ..backend::record(row)?
    })
}

/// Returns None if the lock is exclusive.
pub(super) fn share(row: &SimpleQueryRow) -> Result<Option<Share>> {
    let number = |column| match row.try_get(column).ok().flatten() {
        Some(text) => text.parse().map(Some).map_err(|_| damaged("slot")),
        None => Ok(None),
    };
    let share = (number(7)?, number(8)?);
    Ok(match share {
        (Some(slot), Some(holders)) => Some(Share { slot, holders }),
        _ => None,
    })
}

/// Returns None if there is no table of holders, and therefore no holder.
fn rows_if_any(answer: Result<Vec<SimpleQueryRow>>) -> Result<Option<Vec<SimpleQueryRow>>> {
    match answer {
        Err(error) if error::is_missing_table(&error) => Ok(None),
        answer => answer.map(Some),
    }
}
