//! What a reactor and the sockets it serves expect of each other.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

/// The reads that one turn may make, as other sockets want their turn too. The reactor reports again
/// that there is more.
pub(crate) const MOST_READS: u32 = 64;

/// Repeats a read or a write that a signal interrupted.
pub(crate) fn until_done(mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match attempt() {
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// A reactor: it watches sockets, and calls them on its own thread when they are ready.
///
/// The event loop of the program is one. A request that is made on its thread is written and
/// answered there, so no other thread has to be woken.
pub trait EventLoop: Send + Sync + 'static {
    /// Whether requests may be written by the calling thread.
    fn is_here(&self) -> bool;

    /// Whether a request may wait for others that follow, so that they are written together. If so,
    /// the socket gets a [`Watched::turn`] soon. Only asked where [`is_here`](Self::is_here) is true.
    fn is_gathering(&self) -> bool;

    /// Serves the socket until it is over. If the loop has ended, the socket is closed.
    fn watch(&self, socket: Arc<dyn Watched>);

    /// Gives all sockets a turn soon.
    fn nudge(&self);
}

/// A socket that a reactor serves.
pub trait Watched: Send + Sync + 'static {
    /// The stream that is to be watched. Tokio watches its own streams and does not ask for it.
    fn socket(&self) -> Option<Arc<TcpStream>>;

    /// Reads and writes what is possible without waiting. The reactor calls it on its thread.
    fn turn(&self, event: Event) -> Interest;

    /// Called if there will be no more turns.
    fn close(&self);
}

/// Why a socket gets a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// There may be something to write.
    Gathered,
    /// There may also be something to read.
    Ready,
    /// It is broken, and this is its last turn: what came before is still to be read.
    Broken,
}

/// What a socket waits for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    Read,
    ReadAndWrite,
    /// The socket is over: the reactor forgets it.
    Nothing,
}
