//! Sockets and the two reactors that serve them: the program's event loop, and tokio.
//!
//! - [`event_loop`]: what a reactor does for a socket, and a socket for its reactor.
//! - [`tokio`]: the same interface on tokio's I/O threads.
//! - [`socket`]: a non-blocking stream, plain or with TLS, for either reactor.
//! - [`ticker`]: a timer that many operations share.

pub mod event_loop;
pub(crate) mod socket;
pub(crate) mod ticker;
pub(crate) mod tokio;
