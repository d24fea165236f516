//! The way to the server.
//!
//! [`link`] keeps one [`connection`] to the server that [`topology`] finds and the [`dialer`] calls,
//! in a [`cluster`] one for each place, shared from a [`pool`];
//! [`driver`] moves its bytes and [`watchdog`] limits its waits, both without waking a thread for
//! each request. Of the streams that it uses, [`bounded`] keeps replies small and [`lent`] is only
//! borrowed. [`eval`] is another way, without any of this: a client that the program has.

pub(super) mod bounded;
pub(super) mod cluster;
pub(super) mod connection;
pub(super) mod dialer;
mod driver;
pub(super) mod eval;
mod lent;
pub(super) mod link;
pub(super) mod pool;
pub(super) mod topology;
pub(super) mod watchdog;
