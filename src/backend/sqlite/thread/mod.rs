//! A thread with a connection of its own. Callers wait for its answers without blocking.

mod alarm;
mod desk;
mod pause;
mod service;
mod transaction;
mod worker;

pub(super) use worker::{Access, Worker};
