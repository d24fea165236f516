//! A socket that can move from the runtime to the program's event loop.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::event_loop::{MOST_READS, until_done};

/// The driver has one copy, whoever moves it another.
#[derive(Clone)]
pub(super) struct Wire(Arc<Mutex<Socket>>);

enum Socket {
    OnRuntime(tokio::net::TcpStream),
    OnLoop(Served),
    Moving,
}

struct Served {
    socket: Arc<TcpStream>,
    /// How often it may be read, as there may be something.
    reads: u32,
    /// There is something to write, and no room for it.
    full: bool,
}

impl Wire {
    /// A stream socket of any family: only what all of them can do is used.
    pub(super) fn new(socket: tokio::net::TcpStream) -> Self {
        Self(Arc::new(Mutex::new(Socket::OnRuntime(socket))))
    }

    /// From now on nobody is woken when it is ready: who serves it has to know.
    pub(super) fn leave_runtime(&self) -> io::Result<Arc<TcpStream>> {
        let mut place = self.lock();
        let socket = match std::mem::replace(&mut *place, Socket::Moving) {
            Socket::OnRuntime(socket) => Arc::new(socket.into_std()?),
            Socket::OnLoop(served) => served.socket,
            Socket::Moving => return Err(io::ErrorKind::NotConnected.into()),
        };
        *place = Socket::OnLoop(Served {
            socket: Arc::clone(&socket),
            reads: MOST_READS,
            full: false,
        });
        Ok(socket)
    }

    pub(super) fn may_be_readable(&self) {
        if let Socket::OnLoop(served) = &mut *self.lock() {
            served.reads = MOST_READS;
        }
    }

    pub(super) fn is_full(&self) -> bool {
        matches!(&*self.lock(), Socket::OnLoop(served) if served.full)
    }

    fn lock(&self) -> MutexGuard<'_, Socket> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Served {
    fn read(&mut self, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(more) = self.reads.checked_sub(1) else {
            return Poll::Pending;
        };
        let room = buffer.initialize_unfilled();
        let size = room.len();
        match until_done(|| (&*self.socket).read(room)) {
            Ok(read) => {
                buffer.advance(read);
                // Where there was less than asked for, there is no more now. The end is told again.
                self.reads = if read == size || read == 0 { more } else { 0 };
                Poll::Ready(Ok(()))
            }
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                self.reads = 0;
                Poll::Pending
            }
            Err(cause) => Poll::Ready(Err(cause)),
        }
    }

    fn write(&mut self, data: &[u8]) -> Poll<io::Result<usize>> {
        let written = until_done(|| (&*self.socket).write(data));
        self.full = matches!(&written, Err(cause) if cause.kind() == io::ErrorKind::WouldBlock);
        if self.full {
            Poll::Pending
        } else {
            Poll::Ready(written)
        }
    }
}

fn moving<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self.lock() {
            Socket::OnRuntime(socket) => Pin::new(socket).poll_read(cx, buffer),
            Socket::OnLoop(served) => served.read(buffer),
            Socket::Moving => moving(),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self.lock() {
            Socket::OnRuntime(socket) => Pin::new(socket).poll_write(cx, data),
            Socket::OnLoop(served) => served.write(data),
            Socket::Moving => moving(),
        }
    }

    /// A socket keeps nothing back.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.lock() {
            Socket::OnRuntime(socket) => Pin::new(socket).poll_shutdown(cx),
            Socket::OnLoop(_) | Socket::Moving => Poll::Ready(Ok(())),
        }
    }
}
