//! The SQL: one file for each statement.
//!
//! - [`key`] the keys that are stored, [`table`] the names of tables
//! - [`statements`] the statements, and the message that calls them
//! - [`schema`] creates the tables

pub(super) mod key;
mod schema;
mod statements;
mod table;

pub(super) use schema::{Created, Schema, SetUp};
#[cfg(test)]
pub(super) use statements::ADVISORY_LOCK_CLASS;
pub(super) use statements::{
    Arg, Call, LOCK_TIMEOUT_MS, Session, Statement, Statements, literal, message,
};
pub(super) use table::{COUNTERS, LOCKS, Table, Tables};
