//! What a client that JavaScript has needs of the Redis backend.

use napi_derive::napi;

use super::reply;
use crate::backend::redis::server_error;

/// The error reply for what a server answered, such as `READONLY You can't write`.
#[napi]
pub fn redis_error(line: String) -> String {
    reply::error(&server_error(&line))
}
