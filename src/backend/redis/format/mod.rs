//! What is stored and how it is asked for. Pure.
//!
//! [`keys`] and [`json`] are names and data, [`collisions`] which keys cannot be names, [`layout`] where in a cluster they are, [`scripts`] the
//! operations (each is one Lua script, so it is atomic), [`reply`] their answers.

mod collisions;
pub(super) mod json;
pub(super) mod keys;
pub(super) mod layout;
pub(super) mod reply;
pub(super) mod scripts;
mod slots;
