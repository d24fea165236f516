//! Exposes the functions that read foreign data to the fuzz targets.

use std::time::Duration;

use firestore::gcloud_sdk::google::firestore::v1::Document;
use prost::Message;

use super::FirestoreConfig;
use super::format::Snapshot;
use crate::backend::LockRecord;
use crate::error::Result;

pub fn check_options(config: &FirestoreConfig) -> Result<()> {
    config.validate()
}

/// A document that a server sent.
pub struct Stored(Snapshot);

impl Stored {
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let document = Document::decode(bytes).ok()?;
        Some(Self(Snapshot::found(document)))
    }

    pub fn live_for(&self, now_ms: u64) -> Option<Duration> {
        self.0.live_for(now_ms)
    }

    pub fn counter(&self) -> Result<u64> {
        self.0.counter()
    }

    pub fn locks(&self, now_ms: u64) -> Result<Vec<LockRecord>> {
        self.0.locks(now_ms)
    }
}
