//! A stream that can be taken back from the driver that uses it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(crate) struct Lent<S>(Arc<Mutex<Option<S>>>);

pub(crate) struct Owner<S>(Arc<Mutex<Option<S>>>);

pub(crate) fn lend<S>(stream: S) -> (Lent<S>, Owner<S>) {
    let shared = Arc::new(Mutex::new(Some(stream)));
    (Lent(Arc::clone(&shared)), Owner(shared))
}

impl<S> Owner<S> {
    /// From then on the borrower has a stream that is not connected.
    pub(crate) fn take(self) -> Option<S> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.take()
    }
}

impl<S: Unpin> Lent<S> {
    fn with<T>(
        &self,
        poll: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match stream.as_mut() {
            Some(stream) => poll(Pin::new(stream)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lent<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_read(context, buffer))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Lent<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_shutdown(context))
    }
}
