//! Notifications of the store over a bad line.

use std::sync::Arc;

use async_trait::async_trait;

use super::store::Store;
use crate::backend::Watch;
use crate::client::host::Moment;

/// Notifies late, twice or never.
pub(super) struct BadWatch {
    store: Arc<Store>,
    machine: usize,
    watch: Box<dyn Watch>,
    due: Option<Moment>,
    again: bool,
}

impl BadWatch {
    pub(super) fn new(store: &Arc<Store>, machine: usize, watch: Box<dyn Watch>) -> Self {
        Self {
            store: Arc::clone(store),
            machine,
            watch,
            due: None,
            again: false,
        }
    }
}

#[async_trait]
impl Watch for BadWatch {
    async fn changed(&mut self) {
        let world = Arc::clone(&self.store.world);
        while self.due.is_none() {
            if std::mem::take(&mut self.again) {
                return;
            }
            self.watch.changed().await;
            let faults = self.store.faults();
            let from = world.now().max(*self.store.down_until());
            world.draw(|random| {
                if !random.chance(faults.notification_lost_percent) {
                    self.due = Some(from + faults.latency(random));
                    self.again = random.chance(faults.notification_doubled_percent);
                }
            });
        }
        // Kept until it was delivered, because this future may be dropped.
        if let Some(due) = self.due {
            world.sleep_until(self.machine, due).await;
        }
        self.due = None;
    }
}
