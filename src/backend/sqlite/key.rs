//! Keys as they are stored.

use crate::error::Result;
use crate::lock::key::{KeyBudget, storage_key};

/// The limits of the PostgreSQL tables, whose layout the file shares.
const BUDGET: KeyBudget = KeyBudget {
    limit_bytes: 1700,
    reserve_bytes: 0,
};

pub(super) fn stored_key(key: &str) -> Result<String> {
    storage_key("", key, BUDGET)
}

/// Returns the key under which the fence counter of a stored key is kept.
pub(super) fn fence_key(stored_key: &str) -> Result<String> {
    storage_key("", &format!("fence:{stored_key}"), BUDGET)
}
