//! What JavaScript reads, for the fuzz targets.

use super::reply;
use crate::backend::report::Finding;
use crate::backend::{LockRecord, Miss, Page};
use crate::client::{Extension, Grant};
use crate::error::Error;

pub fn acquired(grant: &Grant) -> String {
    reply::acquired(grant)
}

pub fn extended(outcome: Result<Extension, Miss>) -> String {
    reply::extended(outcome)
}

pub fn found(record: Option<LockRecord>) -> String {
    reply::found(record)
}

pub fn page(page: Page) -> String {
    reply::page(page)
}

pub fn report(findings: Vec<Finding>) -> String {
    reply::report(findings)
}

pub fn error(error: &Error) -> String {
    reply::error(error)
}
