//! Functions that read foreign data, for the fuzz targets.

use std::collections::BTreeMap;

use tokio_postgres::SimpleQueryRow;

use super::sql::SetUp;
use super::{PostgresConfig, backend, report, sharing, target};
use crate::backend::report::Finding;
use crate::backend::{AcquireOutcome, LockRecord, Miss};
use crate::error::Result;

pub fn check_options(config: PostgresConfig) -> Result<()> {
    config.check().map(drop)
}

/// Returns the server's name in messages.
pub fn resolve(url: &str) -> Result<String> {
    let defaults = BTreeMap::from([("user".to_owned(), "user".to_owned())]);
    let target = target::resolve(defaults, Some(url), BTreeMap::new(), None)?;
    Ok(target.server.to_string())
}

pub fn acquired(row: &SimpleQueryRow) -> Result<AcquireOutcome> {
    backend::acquired(row)
}

pub fn missed(row: &SimpleQueryRow) -> Result<Option<Miss>> {
    backend::missed(row)
}

pub fn record(row: &SimpleQueryRow) -> Result<LockRecord> {
    backend::record(row)
}

pub fn share(row: &SimpleQueryRow) -> Result<LockRecord> {
    sharing::record(row)
}

pub fn findings(row: &SimpleQueryRow) -> Vec<Finding> {
    let set_up = SetUp {
        locks: true,
        sharing: true,
        labels: true,
    };
    report::findings(row, set_up)
}
