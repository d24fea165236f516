//! Exposes the code that reads foreign data to the fuzz targets.

use redis::Value;

use super::config::{Node, RedisConfig};
use super::connection::resp;
use super::format::keys::Keyspace;
use super::format::layout::Layout;
use super::format::{record, reply};
use super::servers::cluster::Cluster;
use super::servers::topology::Nat;
use super::{ClientConfig, error, report};
use crate::backend::report::Finding;
use crate::backend::{AcquireOutcome, ExtendOutcome, LockRecord, Page, ReleaseOutcome};
use crate::error::{Error, Result};

pub const MAX_BYTES: usize = resp::MAX_BYTES;
pub const MAX_DEPTH: usize = resp::MAX_DEPTH;

pub fn read_value(bytes: &[u8]) -> Result<Option<(Value, &[u8])>> {
    resp::read_value(bytes)
}

pub fn acquired(value: Value) -> Result<AcquireOutcome> {
    reply::acquired(value)
}

pub fn released(value: Value) -> Result<ReleaseOutcome> {
    reply::released(value)
}

pub fn extended(value: Value) -> Result<ExtendOutcome> {
    reply::extended(value)
}

pub fn found(value: Value) -> Result<Option<LockRecord>> {
    reply::found(value)
}

pub fn page(value: Value, prefix: &str) -> Result<Page> {
    Ok(reply::page(value, &Keyspace::new(prefix, "")?)?.page)
}

pub fn holders(value: Value, prefix: &str, name: &str) -> Result<Vec<LockRecord>> {
    reply::holders(value, &Keyspace::new(prefix, "")?, name)
}

/// Reads what a watch reads of a key.
pub fn generation(stored: &[u8]) {
    record::generation(stored);
}

pub fn yes_or_no(value: Value) -> Result<bool> {
    reply::yes_or_no(value)
}

pub fn text(value: Value) -> Result<String> {
    reply::read(value)
}

pub fn server_error(line: &str) -> Error {
    error::server_error(line)
}

pub fn findings(info: String) -> Vec<Finding> {
    report::findings(&[info])
}

/// Reads the map of a cluster, and an address that one of its servers named.
pub fn cluster(map: Value, address: &str) -> Result<()> {
    let cluster = Cluster::new(Vec::new(), vec![0], Nat(Default::default()));
    cluster.moved(0, address);
    cluster.ranges(&Node::tcp("localhost", 1), map).map(drop)
}

pub fn check_options(config: &RedisConfig) -> Result<()> {
    config.check()?;
    config.connect_timeout()?;
    config.operation_timeout()?;
    let prefix = config.key_prefix.as_deref().unwrap_or_default();
    Layout::new(prefix, config.is_cluster(), &config.client_key_prefix).map(drop)
}

pub fn check_client_options(config: &ClientConfig) -> Result<()> {
    config.operation_timeout()?;
    let prefix = config.key_prefix.as_deref().unwrap_or_default();
    Layout::new(prefix, config.cluster, "").map(drop)
}
