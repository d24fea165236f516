//! Sockets and the two reactors that serve them: the program's event loop, and tokio.
//!
//! - [`event_loop`]: what a reactor does for a socket, and a socket for its reactor.
//! - [`tokio`]: the same interface on tokio's I/O threads.
//! - [`socket`]: a non-blocking stream, plain or with TLS, for either reactor.
//! - [`watchdog`]: ticks while requests are in flight, so that no request needs a timer.

pub mod event_loop;
pub(crate) mod socket;
pub(crate) mod tokio;
pub(crate) mod watchdog;
