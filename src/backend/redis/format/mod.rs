//! The stored format, and the scripts that read and write it. Pure.
//!
//! - [`keys`] makes the names of a lock's entries. [`collisions`] finds the keys that need another name.
//! - [`layout`] and [`slots`] spread the names over a cluster.
//! - [`scripts`] has the operations, and [`reply`] reads their answers.
//! - [`record`] reads the stored data of locks.

mod collisions;
pub(super) mod keys;
pub(super) mod layout;
pub(super) mod record;
pub(super) mod reply;
pub(super) mod scripts;
mod slots;
