//! A thread that serves a connection. Callers wait for its answers without blocking.

mod deadline_timer;
mod pause;
mod service;
mod shared_connection;
mod transaction;
mod worker;

pub(super) use worker::{Access, Worker};
