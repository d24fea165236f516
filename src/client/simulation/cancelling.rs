//! Callers that change their mind, at any of the moments at which a call waits for something.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio_util::sync::CancellationToken;

use super::ledger::Ledger;

pub(super) struct Cancelling<T> {
    pub call: Pin<Box<dyn Future<Output = T> + Send>>,
    pub cancel: Option<CancellationToken>,
    /// How many of these moments pass before it is cancelled.
    pub after: usize,
    pub ledger: Arc<Ledger>,
    pub id: usize,
}

impl<T> Cancelling<T> {
    fn count(&mut self) {
        match self.after.checked_sub(1) {
            Some(left) => self.after = left,
            None => {
                if let Some(cancel) = self.cancel.take() {
                    cancel.cancel();
                    self.ledger.cancelled(self.id);
                }
            }
        }
    }
}

impl<T> Future for Cancelling<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // The first moment is before the first poll. The others follow each poll that has to wait.
        self.count();
        let polled = self.call.as_mut().poll(context);
        if polled.is_pending() {
            self.count();
        }
        polled
    }
}
