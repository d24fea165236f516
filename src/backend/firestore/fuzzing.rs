//! What reads foreign data here, for the fuzz targets.

use std::time::Duration;

use googleapis_tonic_google_firestore_v1::google::firestore::v1::Document;
use prost::Message;

use super::FirestoreConfig;
use super::format::Snapshot;
use crate::backend::LockRecord;
use crate::error::Result;

pub fn check_options(config: &FirestoreConfig) -> Result<()> {
    config.validate()
}

/// A document as the server sends it.
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

    pub fn record(&self) -> Result<LockRecord> {
        self.0.record()
    }
}
