//! Against a real redis-server; the lane against a peer of its own, and clients that are mocks.

mod client;
mod faults;
mod lane;
mod looking_around;
mod operations;
mod server;
mod together;
mod watch;
mod watch_deployments;
mod watch_faults;
