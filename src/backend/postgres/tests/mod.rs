//! Against a real server.

mod faults;
mod operations;
mod server;
mod sharing;
mod watch;
