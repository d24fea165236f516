//! Reads the stored data of locks.

use serde::Deserialize;
use serde_json::Value as Json;

use crate::backend::LockRecord;
use crate::error::{Error, Result};
use crate::lock::{Fence, HolderLabel, LockId, Share};

/// What a shared record contains, and no other record of ours does.
const SHARED: &[u8] = b"\"holders\":[";
/// Longer than what precedes the holders in a record.
const MAX_HEAD_BYTES: usize = 4096;

/// The stored JSON. Other programs may have added fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    lock_id: String,
    expires_at_ms: f64,
    acquired_at_ms: f64,
    key: String,
    fence: String,
    /// Other programs may have stored any value here.
    #[serde(default)]
    holder_label: Json,
    /// Other programs may have stored any value here, too.
    #[serde(default)]
    holders: Json,
}

/// A holder in a shared record.
#[derive(Deserialize)]
struct StoredHolder {
    lock_id: String,
    expires_at_ms: f64,
    slot: u32,
    acquired_at_ms: f64,
    fence: u64,
    label: String,
}

/// Reads a lock, or those of all holders that share the key. They count as `holders`, or as many as there
/// are.
pub(crate) fn locks(json: &[u8], holders: Option<u32>) -> Result<Vec<LockRecord>> {
    let stored: Stored = serde_json::from_slice(json).map_err(|_| not_a_lock())?;
    match Vec::<StoredHolder>::deserialize(&stored.holders) {
        Ok(shared) => {
            let count = holders.unwrap_or(u32::try_from(shared.len()).unwrap_or(u32::MAX));
            let share = |holder| stored.share(holder, count);
            shared.into_iter().map(share).collect()
        }
        Err(_) => Ok(vec![stored.exclusive()?]),
    }
}

/// Returns whether the data is, or begins like, a shared record.
pub(crate) fn is_shared(stored: &[u8]) -> bool {
    start_of_holders(stored).is_some()
}

fn start_of_holders(stored: &[u8]) -> Option<usize> {
    let head = &stored[..stored.len().min(MAX_HEAD_BYTES)];
    head.windows(SHARED.len()).position(|part| part == SHARED)
}

fn not_a_lock() -> Error {
    Error::internal("The value under this key is not a lock: something else writes under keyPrefix")
}

impl Stored {
    fn exclusive(self) -> Result<LockRecord> {
        Ok(LockRecord {
            lock_id: LockId::parse(&self.lock_id).map_err(|_| not_a_lock())?,
            key: self.key,
            // The conversion rounds, and limits what does not fit.
            expires_at_ms: self.expires_at_ms as u64,
            acquired_at_ms: self.acquired_at_ms as u64,
            fence: Fence::parse(&self.fence)?,
            label: self
                .holder_label
                .as_str()
                .and_then(HolderLabel::from_stored),
            share: None,
        })
    }

    fn share(&self, holder: StoredHolder, holders: u32) -> Result<LockRecord> {
        Ok(LockRecord {
            lock_id: LockId::parse(&holder.lock_id).map_err(|_| not_a_lock())?,
            key: self.key.clone(),
            expires_at_ms: holder.expires_at_ms as u64,
            acquired_at_ms: holder.acquired_at_ms as u64,
            fence: Fence::from_stored(holder.fence)?,
            label: HolderLabel::from_stored(&holder.label),
            share: Some(Share {
                slot: holder.slot,
                holders,
            }),
        })
    }
}

/// Tells two states of a shared record apart, if an attempt may succeed in the later one although it was
/// refused in the earlier one. Holders that come, heartbeats and marks make no difference.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    /// The lockId of the record.
    record: String,
    /// How many holders and marks have left it.
    freed: u64,
}

/// Returns the generation of a shared record. None if the data is something else.
pub(crate) fn generation(stored: &[u8]) -> Option<Generation> {
    let head = str::from_utf8(&stored[..start_of_holders(stored)?]).ok()?;
    let (record, _) = head.strip_prefix("{\"lockId\":\"")?.split_once('"')?;
    let (_, freed) = head.rsplit_once("\"freed\":")?;
    Some(Generation {
        record: record.to_owned(),
        freed: freed.strip_suffix(',')?.parse().ok()?,
    })
}
