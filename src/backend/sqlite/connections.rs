//! The connections to the file: one for writes and one for reads, so that a read never waits for a
//! write, and one that sees what other processes write. Each has a thread, which is started when it is
//! first needed.

use rusqlite::Connection;

use super::config::{Durability, Settings};
use super::store::Sql;
use super::thread::{Access, Worker};
use super::watch::Watcher;
use crate::backend::Watch;
use crate::error::Result;
use crate::lock::Key;

pub(super) struct Connections {
    pub(super) durability: Durability,
    writer: Worker,
    reader: Worker,
    watcher: Watcher,
}

impl Connections {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            durability: settings.durability,
            writer: Worker::new(Access::Write, settings.clone()),
            reader: Worker::new(Access::Read, settings.clone()),
            watcher: Watcher::new(settings),
        }
    }

    /// Runs a write that must not be forgotten. With full durability it is on the disk before the answer.
    pub(super) async fn write_durably<T: Send + 'static>(
        &self,
        run: impl FnMut(&Connection, u64) -> Sql<T> + Send + 'static,
    ) -> Result<T> {
        match self.durability {
            Durability::Full => self.writer.run(true, run).await,
            Durability::Normal => self.write(run).await,
        }
    }

    pub(super) async fn write<T: Send + 'static>(
        &self,
        mut run: impl FnMut(&Connection, u64) -> Sql<T> + Send + 'static,
    ) -> Result<T> {
        match self.writer.run_here(&mut run) {
            Some(outcome) => outcome,
            None => self.writer.run(false, run).await,
        }
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        run: impl FnMut(&Connection, u64) -> Sql<T> + Send + 'static,
    ) -> Result<T> {
        self.reader.run(false, run).await
    }

    pub(super) fn watch(&self, key: &Key) -> Option<Box<dyn Watch>> {
        self.watcher.watch(key)
    }

    #[cfg(test)]
    pub(super) fn is_watching(&self) -> bool {
        self.watcher.is_running()
    }

    pub(super) async fn close(&self) {
        // The writer is closed last, so that only the database file is left behind.
        self.watcher.close().await;
        self.reader.close().await;
        self.writer.close().await;
    }
}
