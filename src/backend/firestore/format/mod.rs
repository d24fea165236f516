//! The stored format.

mod document;
mod write;

pub(super) use document::{
    DocumentIds, Snapshot, counter_document, expiry_document, lock_document, text,
};
pub(super) use write::{delete, set, update};
