//! The connections to one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::dialer::Dialer;
use crate::backend::redis::connection::{Answer, Connection};
use crate::backend::redis::format::scripts::Call;
use crate::net::event_loop::EventLoop;

pub(crate) struct Server {
    /// Served by tokio: for heartbeats and error recovery, and where there is no event loop.
    pub(crate) background: Connection,
    /// Served by the program's event loop, for what JavaScript asks: then no other thread has to be
    /// woken, which often costs more than the request. It ends with the other one.
    event_loop: Slot,
    has_been_tried: AtomicBool,
}

type Slot = Arc<Mutex<Option<Arc<Connection>>>>;

impl Server {
    pub(super) fn new(background: Connection) -> Arc<Self> {
        Arc::new(Self {
            background,
            event_loop: Slot::default(),
            has_been_tried: AtomicBool::new(false),
        })
    }

    /// Sends the call over the event loop's connection. None if it has to go over the other one.
    pub(crate) fn send_from_event_loop(&self, call: &Call<'_>) -> Option<Answer> {
        self.event_loop.lock().as_ref()?.send(call)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.background.is_over()
    }

    /// Cancelled when the server cannot be used any more.
    pub(crate) fn over(&self) -> CancellationToken {
        self.background.over()
    }

    /// Makes the connection for the event loop, once. Without it the server is as good, only slower.
    pub(crate) fn connect_event_loop(
        &self,
        dialer: &Dialer,
        event_loop: Arc<dyn EventLoop>,
        limit: Duration,
    ) {
        if self.has_been_tried.swap(true, Ordering::Relaxed) {
            return;
        }
        let dialer = dialer.for_another();
        let (node, over) = (self.background.node().clone(), self.over());
        let slot = Arc::clone(&self.event_loop);
        tokio::spawn(async move {
            let dialling = timeout(limit, dialer.dial_on(&node, Some(event_loop)));
            let Some(Ok(Ok(connection))) = over.run_until_cancelled(dialling).await else {
                return;
            };
            let connection = Arc::new(connection);
            connection.cancel_when_broken(over.clone());
            *slot.lock() = Some(Arc::clone(&connection));
            over.cancelled().await;
            *slot.lock() = None;
            connection.retire().await;
        });
    }
}
