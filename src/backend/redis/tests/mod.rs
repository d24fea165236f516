//! Against a real redis-server, and the lane against a peer of its own.

mod faults;
mod lane;
mod looking_around;
mod operations;
mod server;
mod watch;
mod watch_deployments;
mod watch_faults;
