//! Tests against a real server.

mod batch;
mod concurrency;
mod contested;
mod faults;
mod operations;
mod pool;
mod pooler;
mod server;
mod sharing;
mod starvation;
mod watch;
