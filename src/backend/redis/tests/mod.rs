//! Tests with a real redis-server. `connection` uses a peer of its own, and `client` uses mocks.

mod client;
mod connection;
mod faults;
mod looking_around;
mod memory_limit;
mod operations;
mod server;
mod sharing;
mod sharing_model;
mod tls;
mod together;
mod watch;
mod watch_deployments;
mod watch_faults;
