//! The event loop of the program that we are part of. A socket that it watches is served on its
//! own thread: for a request that was made there, no other thread has to be woken.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

/// What one turn reads at most: others want theirs too. The loop tells again that there is more.
pub(crate) const MOST_READS: u32 = 64;

/// Reads or writes, again if a signal came between.
pub(crate) fn until_done(mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match attempt() {
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

pub trait EventLoop: Send + Sync + 'static {
    /// Whether this is the loop's thread.
    fn is_here(&self) -> bool;

    /// Whether more requests may follow at once, so that it pays to write them together. Every
    /// socket gets a [`Watched::turn`] afterwards. Only asked on the loop's thread.
    fn is_gathering(&self) -> bool;

    /// Serves the socket until it is over. If the loop has ended, the socket is closed.
    fn watch(&self, socket: Arc<dyn Watched>);

    /// Gives all sockets a turn soon.
    fn nudge(&self);
}

/// A socket that an event loop serves.
pub trait Watched: Send + Sync + 'static {
    fn socket(&self) -> Arc<TcpStream>;

    /// Reads and writes what can be at once. The loop calls it on its thread.
    fn turn(&self, event: Event) -> Interest;

    /// There will be no more turns.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    Read,
    ReadAndWrite,
    /// The socket is over: forget it.
    Nothing,
}
