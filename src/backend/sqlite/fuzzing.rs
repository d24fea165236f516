//! Exposes the code that reads stored data to the fuzz targets.

use rusqlite::Connection;

use super::store::{self, Sql};
use super::sweep::Sweeper;
use super::{SqliteConfig, file};
use crate::backend::ReleaseOutcome;
use crate::backend::{
    AcquireOutcome, AcquireRequest, ExtendOutcome, LockRecord, LookupQuery, Page,
};
use crate::error::Result;
use crate::lock::{Key, LockId, Ttl};

pub const SCHEMA: &str = file::connection::SCHEMA;

pub fn check_options(config: SqliteConfig) -> Result<()> {
    config.check().map(drop)
}

pub fn acquire(db: &Connection, request: &AcquireRequest, now_ms: u64) -> Sql<AcquireOutcome> {
    store::acquire(db, request, now_ms)
}

pub fn release(db: &Connection, lock_id: LockId, now_ms: u64) -> Sql<ReleaseOutcome> {
    store::release(db, lock_id, now_ms)
}

pub fn unmark(db: &Connection, key: &Key, mark: LockId, now_ms: u64) -> Sql<()> {
    store::unmark(db, key, mark, now_ms)
}

pub fn extend(db: &Connection, lock_id: LockId, ttl: Ttl, now_ms: u64) -> Sql<ExtendOutcome> {
    store::extend(db, lock_id, ttl, now_ms)
}

pub fn is_locked(db: &Connection, key: &Key, now_ms: u64) -> Sql<bool> {
    store::is_locked(db, key, now_ms)
}

pub fn lookup(db: &Connection, query: &LookupQuery, now_ms: u64) -> Sql<Option<LockRecord>> {
    store::lookup(db, query, now_ms)
}

pub fn list(db: &Connection, now_ms: u64) -> Sql<Page> {
    store::list(db, None, 10, now_ms)
}

pub fn force_release(db: &Connection, key: &Key, now_ms: u64) -> Sql<bool> {
    store::force_release(db, key, now_ms)
}

pub fn sweep(db: &Connection, now_ms: u64) -> rusqlite::Result<()> {
    Sweeper::default().sweep_if_due(db, now_ms)
}
