//! Tells waiters when their key was freed.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::backend::Shared;
use crate::backend::Watch;
use crate::lock::Key;

/// Who is to be told of which key. Costs nothing while nobody watches.
#[derive(Default)]
pub(super) struct Watches {
    by_key: HashMap<Key, Vec<Arc<Notify>>>,
    due: Vec<Arc<Notify>>,
}

impl Watches {
    /// The key was freed.
    pub(super) fn freed(&mut self, key: &Key) {
        if let Some(watching) = self.by_key.get(key) {
            self.due.extend_from_slice(watching);
        }
    }

    /// Those who are to be told, by whoever has unlocked the store: they may go on right there.
    pub(super) fn take_due(&mut self) -> Vec<Arc<Notify>> {
        std::mem::take(&mut self.due)
    }

    fn add(&mut self, key: &Key, watch: &Arc<Notify>) {
        let watching = self.by_key.entry(key.clone()).or_default();
        watching.push(Arc::clone(watch));
    }

    fn remove(&mut self, key: &Key, watch: &Arc<Notify>) {
        if let Some(watching) = self.by_key.get_mut(key) {
            watching.retain(|other| !Arc::ptr_eq(other, watch));
            if watching.is_empty() {
                self.by_key.remove(key);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.due.is_empty()
    }
}

pub(super) struct KeyWatch {
    shared: Arc<Shared>,
    key: Key,
    told: Arc<Notify>,
}

impl KeyWatch {
    pub(super) fn new(shared: &Arc<Shared>, key: &Key) -> Self {
        let told = Arc::new(Notify::new());
        shared.run(|store, now_ms| {
            store.watches.add(key, &told);
            if store.find_key(key, now_ms).is_none() {
                told.notify_one();
            }
        });
        Self {
            shared: Arc::clone(shared),
            key: key.clone(),
            told,
        }
    }
}

#[async_trait]
impl Watch for KeyWatch {
    async fn changed(&mut self) {
        // Keeps one call to come: what is told while nobody listens is not lost.
        self.told.notified().await;
    }
}

impl Drop for KeyWatch {
    fn drop(&mut self) {
        self.shared
            .run(|store, _| store.watches.remove(&self.key, &self.told));
    }
}
