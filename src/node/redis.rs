//! What the JavaScript side needs for a user's own Redis client.

use napi_derive::napi;

use super::reply;
use crate::backend::redis::server_error;

/// Returns the error reply for an answer of the server, such as `READONLY You can't write`.
#[napi]
pub fn redis_error(line: String) -> String {
    reply::error(&server_error(&line))
}
