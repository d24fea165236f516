//! A thread with a connection of its own. Callers wait for its answers without blocking.

mod alarm;
mod pause;
mod service;
mod worker;

pub(super) use worker::{Access, Worker};
