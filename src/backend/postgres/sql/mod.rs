//! What is stored, and the SQL for it: one file for each statement.
//!
//! - [`key`] keys as they are stored, [`table`] names of tables
//! - [`statements`] the statements, and how a call of them is written as a message
//! - [`schema`] creates the tables

pub(super) mod key;
mod schema;
mod statements;
mod table;

pub(super) use schema::Schema;
#[cfg(test)]
pub(super) use statements::ADVISORY_LOCK_CLASS;
pub(super) use statements::{
    Arg, COUNTERS, Call, LOCK_TIMEOUT_MS, LOCKS, Removal, Statements, literal, prepared,
    spelled_out,
};
pub(super) use table::Table;
