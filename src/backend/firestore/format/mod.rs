//! The stored format.

mod document;
mod requests;
mod shared;
mod values;

pub(super) use document::{
    DocumentIds, Snapshot, counter_document, expiry_document, id_of, lock_document,
};
pub(super) use requests::{delete, page, set, update, with_holder, with_lock_id};
pub(super) use shared::{MAX_HOLDERS, SharedHolder, SharedRecord};
