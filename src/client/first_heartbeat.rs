//! One timer for all holds that do not need a task of their own yet. A hold needs one when its first
//! heartbeat is due, or when its deadline has to be watched. Most locks are released long before that.
//! Unlike a [`Ticker`](crate::net::ticker::Ticker), the timer wakes at a given moment of the host's clock.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Client;
use super::hold::Hold;
use super::host::{Host, Moment};

/// How much earlier than necessary a hold may get its task, so that the timer wakes once for many
/// holds and not once for each.
const TIMER_SLACK: Duration = Duration::from_millis(250);

#[derive(Default)]
pub(super) struct FirstHeartbeats {
    /// When the timer fires. None if there is no timer.
    wakes_at: Mutex<Option<Moment>>,
    /// Notified when the timer must fire earlier than it was set to.
    earlier: Notify,
}

impl FirstHeartbeats {
    /// Makes a change that the timer sees either completely or not at all.
    pub fn while_stopped<T>(&self, change: impl FnOnce() -> T) -> T {
        let _wakes_at = self.wakes_at.lock();
        change()
    }
}

impl Client {
    /// Starts the hold's task when the hold first needs it. Must be called whenever that moment may have
    /// become earlier, and after the hold was added to the registry.
    pub(super) fn keep_when_due(self: &Arc<Self>, hold: &Arc<Hold>) {
        if hold.is_kept() {
            return;
        }
        let mut wakes_at = self.first_heartbeats.wakes_at.lock();
        if !hold.needs_keeper() {
            return;
        }
        if !self.host.may_oversleep() {
            drop(wakes_at);
            return self.keep(hold);
        }
        let due = hold.needs_keeper_at();
        match *wakes_at {
            Some(at) if at <= due => return,
            Some(_) => self.first_heartbeats.earlier.notify_one(),
            None => {
                let heartbeats = Arc::clone(&self.first_heartbeats);
                let (client, host) = (Arc::downgrade(self), Arc::clone(&self.host));
                self.host
                    .spawn(Box::pin(start_when_due(heartbeats, client, host)));
            }
        }
        *wakes_at = Some(due);
    }

    /// Starts the tasks of the holds that are due now. Returns when the next one is due.
    fn keep_due(self: &Arc<Self>) -> Option<Moment> {
        let limit = self.host.now() + TIMER_SLACK;
        let mut next = None;
        // Locked for the whole scan: a hold that is registered later finds the timer as it is left here.
        let mut wakes_at = self.first_heartbeats.wakes_at.lock();
        for hold in self.holds.all() {
            if !hold.needs_keeper() || hold.is_kept() {
                continue;
            }
            let due = hold.needs_keeper_at();
            if due <= limit {
                self.keep(&hold);
            } else {
                next = Some(next.map_or(due, |at: Moment| at.min(due)));
            }
        }
        *wakes_at = next;
        next
    }
}

/// Runs the timer. It does not keep the client alive: without holds there is nothing to start.
async fn start_when_due(
    heartbeats: Arc<FirstHeartbeats>,
    client: Weak<Client>,
    host: Arc<dyn Host>,
) {
    loop {
        let at = *heartbeats.wakes_at.lock();
        let Some(at) = at else {
            return;
        };
        tokio::select! {
            biased;
            () = heartbeats.earlier.notified() => continue,
            () = host.sleep_until(at) => {}
        }
        let next = client.upgrade().and_then(|client| client.keep_due());
        if next.is_none() {
            return;
        }
    }
}
