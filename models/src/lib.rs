//! Sources of the library that share state between threads, compiled once more with other locks,
//! atomics and thread-locals: those of `shuttle`, which runs threads in an order that it chooses.
//! `models` says what must hold in every order, `tests/` tries many.

#[allow(dead_code)]
mod client;
#[path = "../../src/map.rs"]
mod map;
pub mod models;
#[allow(dead_code)]
mod node;
mod sync;
#[allow(dead_code)]
#[path = "../../src/net/ticker.rs"]
mod ticker;
