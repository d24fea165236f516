//! Where Node's event loop is not used, the I/O threads do everything.

use std::sync::Arc;

use napi::Env;
use napi::bindgen_prelude::Function;

use super::bridge::Completions;
use super::reply::Reply;
use crate::event_loop::EventLoop;

pub fn attach(
    _id: u64,
    _env: Env,
    _on_replies: &Function<(), ()>,
    _completions: Arc<Completions>,
) -> Option<Arc<dyn EventLoop>> {
    None
}

pub fn serve(_id: u64) -> Option<Vec<(u64, Reply)>> {
    None
}
