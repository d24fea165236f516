//! The servers of a deployment: which one to use, and how to connect to it.
//!
//! - [`route`] is the way to the server of a shard.
//! - [`topology`] finds the server that accepts writes, in a [`cluster`] one for each shard.
//! - [`dialer`] connects to it, and [`greeting`] logs in.
//! - [`server`] holds the connections to one server, which the shards of a cluster share.

pub(super) mod cluster;
pub(super) mod dialer;
mod greeting;
pub(super) mod route;
pub(super) mod server;
pub(super) mod topology;
