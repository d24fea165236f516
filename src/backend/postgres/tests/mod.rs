//! Against a real server.

mod faults;
mod lane;
mod operations;
mod pooler;
mod server;
mod sharing;
mod together;
mod watch;
