//! A thread that serves a connection. Callers wait for its answers without blocking.

mod pause;
mod queue;
mod service;
mod shared_connection;
mod transaction;
mod worker;

pub(super) use worker::{Access, Worker};
