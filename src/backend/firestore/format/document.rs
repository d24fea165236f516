//! The stored documents of a key, and how to read and write them.

use std::collections::HashMap;
use std::time::Duration;

use firestore::gcloud_sdk::google::firestore::v1::{Document, Value};
use prost_types::Timestamp;

use super::shared::SharedRecord;
use super::values::{Fields, fields, number, text};
use crate::backend::{Holder, LockRecord};
use crate::error::{Error, Result};
use crate::lock::key::{KeyBudget, hashed_storage_key, storage_key};
use crate::lock::time::{TIME_TOLERANCE_MS, is_live};
use crate::lock::{Fence, HolderLabel, Key, LockId};

/// This field exists only if the lock has a label.
pub(super) const HOLDER_LABEL: &str = "holderLabel";

const BUDGET: KeyBudget = KeyBudget {
    limit_bytes: 1500,
    reserve_bytes: 0,
};

/// The ids of a key's two documents.
pub(crate) struct DocumentIds {
    pub(crate) lock: String,
    pub(crate) counter: String,
}

impl DocumentIds {
    pub(crate) fn of(key: &Key) -> Result<Self> {
        let key = key.as_str();
        let lock = if is_document_id(key) {
            storage_key("", key, BUDGET)?
        } else {
            hashed_storage_key("", key, BUDGET)?
        };
        Self::of_lock(lock)
    }

    /// Returns the ids of the key whose lock document has this id.
    pub(crate) fn of_lock(lock: String) -> Result<Self> {
        let counter = storage_key("", &format!("fence:{lock}"), BUDGET)?;
        Ok(Self { lock, counter })
    }
}

/// Returns whether Firestore accepts `key` as a document id. [`BUDGET`] limits its length.
fn is_document_id(key: &str) -> bool {
    let reserved = key.len() >= 4 && key.starts_with("__") && key.ends_with("__");
    !key.contains('/') && key != "." && key != ".." && !reserved
}

/// Returns the last part of a document's name.
pub(crate) fn id_of(name: &str) -> &str {
    let (_, id) = name.rsplit_once('/').unwrap_or_default();
    id
}

/// A document as it was read.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) name: String,
    /// `None` if there was no such document.
    pub(crate) version: Option<Timestamp>,
    fields: HashMap<String, Value>,
}

impl Snapshot {
    pub(crate) fn missing(name: String) -> Self {
        Self {
            name,
            version: None,
            fields: HashMap::new(),
        }
    }

    pub(crate) fn found(document: Document) -> Self {
        Self {
            name: document.name,
            // A server always sends it. If it did not, every conditional write would fail.
            version: Some(document.update_time.unwrap_or_default()),
            fields: document.fields,
        }
    }

    pub(crate) fn id(&self) -> &str {
        id_of(&self.name)
    }

    fn text(&self, field: &str) -> Option<&str> {
        Fields(&self.fields).text(field)
    }

    fn number(&self, field: &str) -> Option<u64> {
        Fields(&self.fields).number(field)
    }

    /// Returns when the lock in this document expires. A document without a readable expiry is not a
    /// lock, since it would never expire.
    pub(crate) fn expires_at_ms(&self) -> Option<u64> {
        self.number("expiresAtMs")
    }

    pub(crate) fn is_live(&self, now_ms: u64) -> bool {
        self.live_for(now_ms).is_some()
    }

    /// Returns how long the lock counts as held unless it is extended. `None` if it does not.
    pub(crate) fn live_for(&self, now_ms: u64) -> Option<Duration> {
        let expires_at_ms = self.expires_at_ms()?;
        is_live(expires_at_ms, now_ms, TIME_TOLERANCE_MS).then(|| {
            let free_at_ms = expires_at_ms.saturating_add(TIME_TOLERANCE_MS);
            Duration::from_millis(free_at_ms.saturating_sub(now_ms))
        })
    }

    /// Returns what a waiter is told about the lock that refuses it. `None` if the key is free, as far as
    /// this document says.
    pub(crate) fn obstacle(&self, now_ms: u64) -> Option<Holder> {
        Some(Holder {
            free_in: self.live_for(now_ms)?,
            expires_at_ms: self.expires_at_ms()?,
            is_shared: false,
            label: self.label(),
        })
    }

    /// Returns whether this is the document of a shared key, readable or not.
    pub(crate) fn is_shared(&self) -> bool {
        SharedRecord::is_in(&self.fields)
    }

    /// `None` if the key is not shared, or if the record is damaged.
    pub(crate) fn shared(&self) -> Option<SharedRecord> {
        SharedRecord::read(&self.fields)
    }

    /// Returns the lockId of the exclusive holder, if it can be read, or that of a shared record. If it is
    /// another one than before, an attempt to acquire makes sense.
    pub(crate) fn holder(&self) -> Option<&str> {
        self.text("lockId")
    }

    /// `None` if there is no label, or one that cannot be read.
    pub(crate) fn label(&self) -> Option<HolderLabel> {
        HolderLabel::from_stored(self.text(HOLDER_LABEL)?)
    }

    pub(crate) fn is_owned_by(&self, lock_id: LockId) -> bool {
        !self.is_shared() && self.holder() == Some(lock_id.as_str())
    }

    /// Returns the last fence of this counter, or 0 if there is no counter yet. A counter that cannot be
    /// read is an error, because starting from zero would repeat fences.
    pub(crate) fn counter(&self) -> Result<u64> {
        if self.version.is_none() {
            return Ok(0);
        }
        let digits = |text: &&str| {
            (1..=15).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
        };
        let counter = match self.text("fence").filter(digits) {
            Some(text) => text.parse().ok(),
            None => self.number("fence"),
        };
        counter.ok_or_else(|| {
            Error::internal(
                "The fence counter document of this key was changed by another program: its field `fence` is not a number. Restore it to a value above the last fence that was used",
            )
        })
    }

    /// Returns the live locks in this document: one if the key is exclusive, and one for each holder if it
    /// is shared.
    pub(crate) fn locks(&self, now_ms: u64) -> Result<Vec<LockRecord>> {
        if !self.is_live(now_ms) {
            return Ok(Vec::new());
        }
        if !self.is_shared() {
            return Ok(vec![self.record()?]);
        }
        let shared = self.shared().ok_or_else(damaged)?;
        Ok(shared.locks(now_ms))
    }

    fn record(&self) -> Result<LockRecord> {
        let lock_id = self.holder().ok_or_else(damaged)?;
        Ok(LockRecord {
            key: self.text("key").ok_or_else(damaged)?.to_owned(),
            lock_id: LockId::parse(lock_id).map_err(|_| damaged())?,
            expires_at_ms: self.expires_at_ms().ok_or_else(damaged)?,
            acquired_at_ms: self.number("acquiredAtMs").ok_or_else(damaged)?,
            fence: Fence::parse(self.text("fence").ok_or_else(damaged)?)?,
            label: self.label(),
            share: None,
        })
    }
}

fn damaged() -> Error {
    Error::internal(
        "The lock document was changed by another program: a field is missing or of the wrong type. Wait until it expires, or release it by force",
    )
}

pub(crate) fn lock_document(name: String, record: &LockRecord) -> Document {
    let mut document = document(
        name,
        [
            ("lockId", text(record.lock_id.as_str())),
            ("expiresAtMs", number(record.expires_at_ms)),
            ("acquiredAtMs", number(record.acquired_at_ms)),
            ("key", text(&record.key)),
            ("fence", text(&record.fence.to_string())),
        ],
    );
    if let Some(label) = &record.label {
        document
            .fields
            .insert(HOLDER_LABEL.to_owned(), text(label.as_str()));
    }
    document
}

pub(crate) fn counter_document(name: String, fence: Fence, key: &str) -> Document {
    document(
        name,
        [("fence", text(&fence.to_string())), ("keyDebug", text(key))],
    )
}

/// Returns a document with only the expiry, for an update of that field.
pub(crate) fn expiry_document(name: String, expires_at_ms: u64) -> Document {
    document(name, [("expiresAtMs", number(expires_at_ms))])
}

fn document<const N: usize>(name: String, values: [(&str, Value); N]) -> Document {
    Document {
        name,
        fields: fields(values),
        ..Document::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(key: &str) -> DocumentIds {
        DocumentIds::of(&Key::new(key).unwrap()).unwrap()
    }

    #[test]
    fn plain_keys_are_document_ids() {
        for key in [
            "a", "a:b", "ключ", "__", "___", "__a", "a__", "...", "a.b", " ",
        ] {
            assert_eq!(ids(key).lock, key);
            assert_eq!(ids(key).counter, format!("fence:{key}"));
        }
        let long = "k".repeat(512);
        assert_eq!(ids(&long).lock, long);
    }

    #[test]
    fn keys_that_cannot_be_document_ids_are_hashed() {
        for key in ["/", "a/b", "../x", ".", "..", "____", "__x__", "__/__"] {
            let ids = ids(key);
            assert_eq!(ids.lock.len(), 22, "{key}");
            assert!(is_document_id(&ids.lock));
            assert_eq!(ids.counter, format!("fence:{}", ids.lock));
        }
    }
}
