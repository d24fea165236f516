//! The connections to the file: one for writes and one for reads, so that a read never waits for a
//! write, and one that sees what other processes write. Each has a thread, which is started when it is
//! first needed.

use super::config::Settings;
use super::thread::{Access, Worker};
use super::watch::Watcher;

pub(super) struct Connections {
    pub(super) writer: Worker,
    pub(super) reader: Worker,
    pub(super) watcher: Watcher,
}

impl Connections {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            writer: Worker::new(Access::Write, settings.clone()),
            reader: Worker::new(Access::Read, settings.clone()),
            watcher: Watcher::new(settings),
        }
    }

    pub(super) async fn close(&self) {
        // The writer is closed last, so that only the database file is left behind.
        self.watcher.close().await;
        self.reader.close().await;
        self.writer.close().await;
    }
}
