//! The event loop of the program that we are part of. A socket that it watches is served on its
//! own thread: for a request that was made there, no other thread has to be woken.

use std::net::TcpStream;
use std::sync::Arc;

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
    fn socket(&self) -> &TcpStream;

    /// Reads and writes what can be at once. Called on the loop's thread.
    fn turn(&self, readable: bool) -> Interest;

    /// The loop is over.
    fn close(&self);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    Read,
    ReadAndWrite,
    /// The socket is over: forget it.
    Nothing,
}
