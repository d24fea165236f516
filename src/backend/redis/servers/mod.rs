//! The servers of a deployment: which one to use, and how to connect to it.
//!
//! [`topology`] finds the server that takes the writes, in a [`cluster`] one for each shard. The
//! [`dialer`] connects to it, [`greeting`] logs in, and [`failure`] says why that did not work.
//! [`server`] holds the connections to one server. The shards of a cluster share them from a
//! [`pool`].

pub(super) mod cluster;
pub(super) mod dialer;
pub(super) mod failure;
mod greeting;
mod pool;
pub(super) mod server;
pub(super) mod topology;
