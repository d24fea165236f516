//! Runs scripts through the `eval` method of a client that belongs to the program. Nothing else is known
//! of the client.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::time::timeout;

use super::error;
use super::format::scripts::Call;
use crate::error::{Error, Result};
use crate::foreign::Foreign;

pub(super) struct Client {
    pub(super) client: Arc<dyn Foreign>,
    /// How long the client may take to answer.
    pub(super) limit: Duration,
}

/// The reply of the client's `eval`, or the error that the server answered. A nil reply may be left
/// out.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Answer {
    #[serde(default)]
    reply: Json,
    server_error: Option<String>,
}

impl Client {
    /// Runs a script once. Only an error of the server proves that nothing was done.
    pub(super) async fn run(&self, call: &Call<'_>) -> Result<Value> {
        let asked = self.client.ask(json!({
            "op": "script",
            "name": call.script.name,
            "code": call.script.text,
            "sha": call.script.hash,
            "keys": call.keys,
            "args": call.args,
        }));
        let answer = match timeout(self.limit, asked).await {
            Ok(answer) => answer.map_err(Error::outcome_unknown)?,
            Err(_) => {
                let message = "The Redis client did not answer in time (operationTimeoutMs)";
                return Err(Error::timeout(message).outcome_unknown());
            }
        };
        let reply = match serde_json::from_value(answer) {
            Ok(Answer {
                server_error: Some(line),
                ..
            }) => return Err(error::server_error(&line)),
            Ok(Answer { reply, .. }) => value(reply),
            Err(_) => None,
        };
        reply.ok_or_else(|| error::unexpected_reply().outcome_unknown())
    }
}

/// Converts a reply. None if no client of Redis returns such a value.
fn value(json: Json) -> Option<Value> {
    Some(match json {
        Json::Null => Value::Nil,
        Json::Number(number) => Value::Int(number.as_i64()?),
        Json::String(text) => Value::BulkString(text.into_bytes()),
        Json::Array(values) => Value::Array(values.into_iter().map(value).collect::<Option<_>>()?),
        Json::Bool(_) | Json::Object(_) => return None,
    })
}
