//! The record of a key that several holders share. It lies in the document of the key's lock and has
//! the fields of an exclusive lock, so that programs that know only those see a lock that is not
//! theirs.

use std::collections::HashMap;

use firestore::gcloud_sdk::google::firestore::v1::{Document, Value};

use super::document::HOLDER_LABEL;
use super::values::{Fields, fields, list, map, number, text};
use crate::backend::LockRecord;
use crate::lock::share::Mark;
use crate::lock::time::{TIME_TOLERANCE_MS, is_live};
use crate::lock::{Fence, HolderLabel, LockId, Share};

/// Only the document of a shared key has this field: a list with a map for each holder.
const HOLDERS: &str = "holders";
/// The holders' lockIds. Firestore finds a document by an element of a list, if it is not a map.
pub(super) const HOLDER_IDS: &str = "holderIds";
const MARK: &str = "mark";

/// The most holders of a key. A document has at most 1 MiB, and a holder takes up to 270 bytes in it.
pub(crate) const MAX_HOLDERS: u32 = 2000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedHolder {
    pub(crate) lock_id: LockId,
    pub(crate) expires_at_ms: u64,
    pub(crate) acquired_at_ms: u64,
    pub(crate) fence: Fence,
    pub(crate) slot: u32,
    pub(crate) label: Option<HolderLabel>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedRecord {
    pub(crate) key: String,
    /// Nobody holds a lock with this id. It changes when a shared attempt that was refused may succeed:
    /// when a holder leaves, and when a mark is removed. So a watch need not compare holders, whether it
    /// knows them or not.
    pub(crate) lock_id: LockId,
    /// When the key was last granted, and with which fence.
    pub(crate) acquired_at_ms: u64,
    pub(crate) fence: Fence,
    pub(crate) holders: Vec<SharedHolder>,
    pub(crate) mark: Option<Mark>,
}

impl SharedHolder {
    pub(crate) fn is_live(&self, now_ms: u64) -> bool {
        is_live(self.expires_at_ms, now_ms, TIME_TOLERANCE_MS)
    }

    fn read(fields: Fields<'_>) -> Option<Self> {
        Some(Self {
            lock_id: lock_id(fields, "lockId")?,
            expires_at_ms: fields.number("expiresAtMs")?,
            acquired_at_ms: fields.number("acquiredAtMs")?,
            fence: Fence::parse(fields.text("fence")?).ok()?,
            slot: u32::try_from(fields.number("slot")?).ok()?,
            label: fields.text(HOLDER_LABEL).and_then(HolderLabel::from_stored),
        })
    }

    fn to_value(&self) -> Value {
        let mut holder = fields([
            ("lockId", text(self.lock_id.as_str())),
            ("expiresAtMs", number(self.expires_at_ms)),
            ("acquiredAtMs", number(self.acquired_at_ms)),
            ("fence", text(&self.fence.to_string())),
            ("slot", number(self.slot.into())),
        ]);
        if let Some(label) = &self.label {
            holder.insert(HOLDER_LABEL.to_owned(), text(label.as_str()));
        }
        map(holder)
    }
}

impl SharedRecord {
    /// Returns whether a document with these fields is that of a shared key, readable or not.
    pub(super) fn is_in(document: &HashMap<String, Value>) -> bool {
        Fields(document).has(HOLDERS)
    }

    /// Returns the record. `None` if it is damaged: who holds the key is then unknown.
    pub(super) fn read(document: &HashMap<String, Value>) -> Option<Self> {
        let document = Fields(document);
        let expires_at_ms = document.number("expiresAtMs")?;
        let holders = document.maps(HOLDERS)?.into_iter().map(|holder| {
            let holder = SharedHolder::read(holder)?;
            // Nobody outlasts the document: once it has expired, other programs may replace it.
            Some(SharedHolder {
                expires_at_ms: holder.expires_at_ms.min(expires_at_ms),
                ..holder
            })
        });
        Some(Self {
            key: document.text("key")?.to_owned(),
            lock_id: lock_id(document, "lockId")?,
            acquired_at_ms: document.number("acquiredAtMs")?,
            fence: Fence::parse(document.text("fence")?).ok()?,
            holders: holders.collect::<Option<_>>()?,
            mark: read_mark(document),
        })
    }

    pub(crate) fn to_document(&self, name: String) -> Document {
        let holders = self.holders.iter();
        let last = holders.clone().map(|holder| holder.expires_at_ms).max();
        let ids = holders.clone().map(|holder| text(holder.lock_id.as_str()));
        let mut document = fields([
            ("lockId", text(self.lock_id.as_str())),
            // A record without holders has only a mark. It has been expired for ever.
            ("expiresAtMs", number(last.unwrap_or(0))),
            ("acquiredAtMs", number(self.acquired_at_ms)),
            ("key", text(&self.key)),
            ("fence", text(&self.fence.to_string())),
            (HOLDER_IDS, list(ids)),
            (HOLDERS, list(holders.map(SharedHolder::to_value))),
        ]);
        if let Some(mark) = &self.mark {
            let mark = fields([
                ("id", text(mark.id.as_str())),
                ("untilMs", number(mark.until_ms)),
            ]);
            document.insert(MARK.to_owned(), map(mark));
        }
        Document {
            name,
            fields: document,
            ..Document::default()
        }
    }

    pub(crate) fn live_holders(&self, now_ms: u64) -> impl Iterator<Item = &SharedHolder> + Clone {
        let holders = self.holders.iter();
        holders.filter(move |holder| holder.is_live(now_ms))
    }

    /// Returns the live locks, each with its share of the key.
    pub(crate) fn locks(&self, now_ms: u64) -> Vec<LockRecord> {
        let live = self.live_holders(now_ms);
        let holders = u32::try_from(live.clone().count()).unwrap_or(u32::MAX);
        let locks = live.map(|holder| LockRecord {
            key: self.key.clone(),
            lock_id: holder.lock_id,
            expires_at_ms: holder.expires_at_ms,
            acquired_at_ms: holder.acquired_at_ms,
            fence: holder.fence,
            label: holder.label.clone(),
            share: Some(Share {
                slot: holder.slot,
                holders,
            }),
        });
        locks.collect()
    }
}

/// `None` if there is no mark, or one that cannot be read. Such a mark keeps nobody out.
fn read_mark(document: Fields<'_>) -> Option<Mark> {
    let mark = document.map(MARK)?;
    Some(Mark {
        id: lock_id(mark, "id")?,
        until_ms: mark.number("untilMs")?,
    })
}

fn lock_id(fields: Fields<'_>, field: &str) -> Option<LockId> {
    LockId::parse(fields.text(field)?).ok()
}
