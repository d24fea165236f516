//! The SQL: one file for each statement.
//!
//! - [`key`] the keys that are stored, [`table`] the names of tables
//! - [`statements`] the statements, and the message that calls them
//! - [`schema`] creates the tables

pub(super) mod key;
mod schema;
mod statements;
mod table;

pub(super) use schema::Schema;
#[cfg(test)]
pub(super) use statements::ADVISORY_LOCK_CLASS;
pub(super) use statements::{
    Arg, COUNTERS, Call, LOCK_TIMEOUT_MS, LOCKS, Session, Statement, Statements, literal, message,
};
pub(super) use table::Table;
