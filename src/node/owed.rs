//! An operation until its outcome is with whom it is owed to.

use std::pin::Pin;
use std::task::{Context, Poll};

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
        let mut this = self.project();
        if let Some(pending) = this.pending.take() {
            match this.operation.as_mut().poll(context) {
                Poll::Pending => *this.pending = Some(pending),
                Poll::Ready(Outcome { reply, undo: None }) => pending.finish(reply),
                Poll::Ready(outcome) => {
                    *this.concluding = Some(Box::pin(conclude(outcome, pending)));
                }
            }
        }
        match this.concluding {
            Some(concluding) => concluding.as_mut().poll(context),
            None if this.pending.is_some() => Poll::Pending,
            None => Poll::Ready(()),
        }
    }
}

pub(super) async fn conclude(outcome: Outcome, mut pending: Pending) {
    let Outcome { reply, undo } = outcome;
    let Some(undo) = undo else {
        return pending.finish(reply);
    };
    pending.interim(reply);
    undo.await;
    pending.finish(Reply::nothing());
}
