//! The stored format.

mod document;
mod query;
mod write;

pub(super) use document::{
    DocumentIds, Snapshot, counter_document, expiry_document, lock_document,
};
pub(super) use query::{page, with_lock_id};
pub(super) use write::{delete, set, update};
