//! Locks in a SQLite file, for all processes of one host. No server; the clock is the host's.
//!
//! Two threads per backend, each with its own connection, started when they are first needed: one
//! for `acquire`, `release` and `extend`, one for the reads, which therefore never wait for a write.

mod alarm;
mod claim;
mod config;
mod connection;
mod error;
mod location;
mod pause;
mod service;
mod store;
mod sweep;
mod worker;

use async_trait::async_trait;

use super::{
    AcquireOutcome, AcquireRequest, Backend, ExtendOutcome, LockRecord, LookupQuery, ReleaseOutcome,
};
use crate::error::Result;
use crate::lock::{Key, LockId, Ttl};
pub use config::{Durability, SqliteConfig};
use worker::{Access, Worker};

pub struct SqliteBackend {
    durability: Durability,
    writer: Worker,
    reader: Worker,
}

impl SqliteBackend {
    /// Checks the options. The file is opened by the first operation.
    pub fn open(config: SqliteConfig) -> Result<Self> {
        let settings = config.check()?;
        Ok(Self {
            durability: settings.durability,
            writer: Worker::new(Access::Write, settings.clone()),
            reader: Worker::new(Access::Read, settings),
        })
    }
}

#[async_trait]
impl Backend for SqliteBackend {
    async fn acquire(&self, request: &AcquireRequest) -> Result<AcquireOutcome> {
        let request = request.clone();
        let syncs = self.durability == Durability::Full;
        self.writer
            .run(syncs, move |db, now_ms| {
                store::acquire(db, &request, now_ms)
            })
            .await
    }

    // A power cut ends every holder. If it also undoes the last releases and extensions, these locks
    // are over when their TTL is, as with any holder that died: only fences must not be forgotten.
    async fn release(&self, lock_id: LockId) -> Result<ReleaseOutcome> {
        self.writer
            .run(false, move |db, now_ms| store::release(db, lock_id, now_ms))
            .await
    }

    async fn extend(&self, lock_id: LockId, ttl: Ttl) -> Result<ExtendOutcome> {
        self.writer
            .run(false, move |db, now_ms| {
                store::extend(db, lock_id, ttl, now_ms)
            })
            .await
    }

    async fn is_locked(&self, key: &Key) -> Result<bool> {
        let key = key.clone();
        self.reader
            .run(false, move |db, now_ms| store::is_locked(db, &key, now_ms))
            .await
    }

    async fn lookup(&self, query: &LookupQuery) -> Result<Option<LockRecord>> {
        let query = query.clone();
        self.reader
            .run(false, move |db, now_ms| store::lookup(db, &query, now_ms))
            .await
    }

    fn has_own_threads(&self) -> bool {
        true
    }

    async fn close(&self) {
        // The writer last: it then leaves a single file behind.
        self.reader.close().await;
        self.writer.close().await;
    }
}

#[cfg(test)]
mod tests;
