//! What is stored, and the SQL for it: one file for each statement.
//!
//! - [`key`] keys as they are stored, [`table`] names of tables
//! - [`statements`] the statements and how a call of them is written out
//! - [`schema`] making the tables

pub(super) mod key;
mod schema;
mod statements;
mod table;

pub(super) use schema::Schema;
pub(super) use statements::{
    Arg, COUNTERS, Call, LOCKS, Removal, Statements, literal, prepared, spelled_out,
};
pub(super) use table::Table;
