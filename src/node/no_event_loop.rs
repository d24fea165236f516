//! Where Node's event loop is not used, the I/O threads do everything.

use std::rc::Rc;
use std::sync::Arc;

use napi::Env;

use super::outbox::Outbox;
use super::recipient::Recipient;
use crate::net::event_loop::EventLoop;

pub fn attach(
    _id: u64,
    _env: Env,
    _recipient: &Rc<Recipient>,
    _outbox: Arc<Outbox>,
) -> Option<Arc<dyn EventLoop>> {
    None
}

pub fn serve(_id: u64) {}

pub fn detach(_id: u64) {}
