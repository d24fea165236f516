//! The way through a client that the program has, of which nothing is known but that it runs scripts.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::time::timeout;

use crate::backend::redis::error;
use crate::backend::redis::format::scripts::Call;
use crate::error::{Error, Result};
use crate::foreign::Foreign;

pub(crate) struct Eval {
    client: Arc<dyn Foreign>,
    limit: Duration,
}

/// What the client's `eval` returned, or what the server refused it with. A reply of nothing may be
/// left out.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Answer {
    #[serde(default)]
    reply: Json,
    server_error: Option<String>,
}

impl Eval {
    pub(crate) fn new(client: Arc<dyn Foreign>, limit: Duration) -> Self {
        Self { client, limit }
    }

    /// Runs a script once. Of whatever goes wrong, only an error of the server's tells that nothing
    /// was done.
    pub(crate) async fn run(&self, call: &Call<'_>) -> Result<Value> {
        let code = &call.script.documented;
        let asked = self.client.ask(json!({
            "op": "script",
            "name": call.script.name,
            "code": code.text,
            "sha": code.hash,
            "keys": call.keys,
            "args": call.args.documented,
        }));
        let answer = match timeout(self.limit, asked).await {
            Ok(answer) => answer.map_err(Error::outcome_unknown)?,
            Err(_) => return Err(error::silent_client().outcome_unknown()),
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

/// Nothing for what no client of Redis returns.
fn value(json: Json) -> Option<Value> {
    Some(match json {
        Json::Null => Value::Nil,
        Json::Number(number) => Value::Int(number.as_i64()?),
        Json::String(text) => Value::BulkString(text.into_bytes()),
        Json::Array(values) => Value::Array(values.into_iter().map(value).collect::<Option<_>>()?),
        Json::Bool(_) | Json::Object(_) => return None,
    })
}
