//! The watch that a waiter holds on the lock document of its key.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::at;
use super::sight::Sight;
use super::watcher::Listening;
use crate::backend::Watch;

pub(super) struct KeyWatch {
    listening: Arc<Listening>,
    document: Arc<str>,
    joined: Option<Joined>,
}

struct Joined {
    sight: Receiver<Sight>,
    /// The last news that the waiter was told, and when.
    told: u64,
    told_at: Option<Instant>,
}

impl KeyWatch {
    pub(super) fn new(listening: Arc<Listening>, document: String) -> Self {
        Self {
            listening,
            document: document.into(),
            joined: None,
        }
    }
}

#[async_trait]
impl Watch for KeyWatch {
    async fn changed(&mut self) {
        let joined = self.joined.get_or_insert_with(|| {
            let sight = self.listening.join(&self.document);
            let told = sight.borrow().news();
            Joined {
                sight,
                told,
                told_at: None,
            }
        });
        joined.changed(self.listening.policy.second_look).await;
    }
}

impl Joined {
    async fn changed(&mut self, second_look: Duration) {
        loop {
            let (news, free_at) = {
                let sight = self.sight.borrow_and_update();
                (sight.news(), sight.free_at())
            };
            if news == self.told {
                let try_at = free_at.map(|free_at| match self.told_at {
                    Some(told_at) => free_at.max(told_at + second_look),
                    None => free_at,
                });
                tokio::select! {
                    () = next(&mut self.sight) => continue,
                    () = at(try_at) => {}
                }
            }
            self.told = news;
            self.told_at = Some(Instant::now());
            return;
        }
    }
}

async fn next(sight: &mut Receiver<Sight>) {
    if sight.changed().await.is_err() {
        std::future::pending().await
    }
}

impl Drop for KeyWatch {
    fn drop(&mut self) {
        if self.joined.is_some() {
            self.listening.leave(&self.document);
        }
    }
}
