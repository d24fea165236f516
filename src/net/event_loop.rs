//! The interface between a reactor and the sockets that it serves.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

/// How often one turn may read, so that other sockets get their turn. If there is more to read, the reactor
/// reports the socket again.
pub(crate) const MAX_READS_PER_TURN: u32 = 64;

/// Repeats a read or a write that a signal interrupted.
pub(crate) fn until_done(mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match attempt() {
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// A reactor, which watches sockets and calls them on its own thread when they are ready.
///
/// The program's event loop is a reactor. A request that is made on its thread is written and answered there,
/// so that no other thread has to be woken.
pub trait EventLoop: Send + Sync + 'static {
    /// Returns whether the calling thread may write requests.
    fn is_here(&self) -> bool;

    /// Returns whether a request may wait for others that follow, so that they are written together. If so, the
    /// socket gets a [`Watched::turn`] soon. Only called if [`is_here`](Self::is_here) is true.
    fn is_gathering(&self) -> bool;

    /// Serves the socket until it has nothing left to wait for. Closes it if the loop has ended.
    fn watch(&self, socket: Arc<dyn Watched>);

    /// Gives all sockets a turn soon.
    fn nudge(&self);
}

/// A socket that a reactor serves.
pub trait Watched: Send + Sync + 'static {
    /// Returns the stream to watch. Tokio watches streams of its own and does not call this.
    fn socket(&self) -> Option<Arc<TcpStream>>;

    /// Reads and writes what is possible without waiting. The reactor calls it on its thread.
    fn turn(&self, event: Event) -> Interest;

    /// Closes the socket. It gets no more turns.
    fn close(&self);
}

/// Why a socket gets a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// There may be something to write.
    Gathered,
    /// There may also be something to read.
    Ready,
    /// It is broken, and this is its last turn. What arrived before is still to be read.
    Broken,
}

/// What a socket waits for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    Read,
    ReadAndWrite,
    /// The socket has nothing left to wait for, so the reactor forgets it.
    Nothing,
}
