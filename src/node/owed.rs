//! An operation until its outcome is with whom it is owed to.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use pin_project_lite::pin_project;

use super::bridge::Pending;
use super::reply::Reply;

/// What an operation ends with: the reply and, sometimes, work that goes on after it.
pub(super) struct Outcome {
    pub reply: Reply,
    pub undo: Option<BoxFuture<'static, ()>>,
}

impl From<Reply> for Outcome {
    fn from(reply: Reply) -> Self {
        Self { reply, undo: None }
    }
}

pin_project! {
    /// An operation, and to whom it owes its outcome when that did not come at once. In one piece: a
    /// box less for each.
    pub(super) struct Owed<F> {
        #[pin]
        operation: F,
        pending: Option<Pending>,
        concluding: Option<BoxFuture<'static, ()>>,
    }
}

impl<F: Future<Output = Outcome>> Owed<F> {
    pub fn new(operation: F) -> Self {
        Self {
            operation,
            pending: None,
            concluding: None,
        }
    }

    pub fn poll_for_outcome(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        self.project().operation.poll(context)
    }

    pub fn owe(self: Pin<&mut Self>, pending: Pending) {
        *self.project().pending = Some(pending);
    }
}

impl<F: Future<Output = Outcome>> Future for Owed<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if let Some(concluding) = this.concluding {
            return concluding.as_mut().poll(context);
        }
        let Outcome { reply, undo } = ready!(this.operation.poll(context));
        match (this.pending.take(), undo) {
            (Some(pending), Some(undo)) => {
                let concluding = Box::pin(conclude(reply, undo, pending));
                this.concluding.insert(concluding).as_mut().poll(context)
            }
            (Some(pending), None) => {
                pending.finish(reply);
                Poll::Ready(())
            }
            (None, _) => Poll::Ready(()),
        }
    }
}

/// Answers the caller, and goes on with what is left to do.
pub(super) async fn conclude(reply: Reply, undo: BoxFuture<'static, ()>, mut pending: Pending) {
    pending.interim(reply);
    undo.await;
    pending.finish(Reply::nothing());
}
