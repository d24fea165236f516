//! A pending operation and its completion.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use pin_project_lite::pin_project;

use super::bridge::Pending;
use super::reply::Reply;

/// The outcome of an operation: the reply and, in some cases, an undo that continues after it.
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
    /// An operation, and where its reply goes if it did not complete at once. One struct for both saves
    /// a box for each operation.
    pub(super) struct Operation<F> {
        #[pin]
        operation: F,
        pending: Option<Pending>,
        concluding: Option<BoxFuture<'static, ()>>,
    }
}

impl<F: Future<Output = Outcome>> Operation<F> {
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

    pub fn reply_through(self: Pin<&mut Self>, pending: Pending) {
        *self.project().pending = Some(pending);
    }
}

impl<F: Future<Output = Outcome>> Future for Operation<F> {
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

/// Answers the caller and runs the undo.
pub(super) async fn conclude(reply: Reply, undo: BoxFuture<'static, ()>, mut pending: Pending) {
    pending.interim(reply);
    undo.await;
    pending.finish(Reply::nothing());
}
