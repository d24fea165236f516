//! The stored format.

mod document;
mod requests;

pub(super) use document::{
    DocumentIds, Snapshot, counter_document, expiry_document, lock_document,
};
pub(super) use requests::{delete, page, set, update, with_lock_id};
