//! Against a real redis-server.

mod faults;
mod operations;
mod server;
