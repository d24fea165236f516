//! Repeats a call that a server refused without doing anything, where another server may have taken
//! over.

use std::sync::Arc;

use redis::{ServerError, Value};
use tokio::time::Instant;

use super::connections::{Shard, gave_up};
use super::error;
use super::format::scripts::Call;
use super::servers::server::Server;
use crate::backend::backoff::Backoff;
use crate::error::{Error, Result};

impl Shard {
    /// `refused` is the refusal of the first attempt, if there was one.
    pub(super) async fn run_with_retries(
        self: &Arc<Self>,
        call: &Call<'_>,
        mut refused: Option<(Arc<Server>, ServerError)>,
    ) -> Result<Value> {
        let patience = self.route.dialer.connect_timeout;
        let give_up = Instant::now() + patience;
        let mut backoff = Backoff::new(patience);
        let mut was_moved = false;
        let mut refusal: Option<Error> = None;
        loop {
            let (server, mut error) = match refused.take() {
                Some(refused) => refused,
                None => {
                    let server = self.server(give_up, refusal.as_ref()).await?;
                    match server.background.call(call).await? {
                        Value::ServerError(error) => (server, error),
                        value => return Ok(value),
                    }
                }
            };
            if error::code_of(&error) == "ASK" && self.route.topology.can_change() {
                match self.ask_elsewhere(call, &error).await? {
                    Some(Value::ServerError(other)) => error = other,
                    Some(value) => return Ok(value),
                    None => {}
                }
            }
            let code = error::code_of(&error);
            let leave = || self.leave(|current| Arc::ptr_eq(current, &server));
            match code {
                "MOVED" | "ASK" if !self.route.topology.can_change() => {
                    return Err(error::from_code("CROSSSLOT"));
                }
                "MOVED" => {
                    self.route.note_move(&error);
                    leave();
                }
                // This concerns a plain server, too: its name may lead to another one by now.
                "READONLY" | "MASTERDOWN" | "CLUSTERDOWN" | "LOADING" => leave(),
                "TRYAGAIN" | "ASK" => {}
                _ => return Err(error::from_server(&error)),
            }
            if Instant::now() >= give_up {
                return Err(gave_up(error::from_server(&error), patience));
            }
            refusal = Some(error::from_server(&error));
            // Only the first redirection is followed at once. Any other retry waits.
            if code == "MOVED" && !std::mem::replace(&mut was_moved, true) {
                continue;
            }
            backoff.wait().await;
        }
    }

    /// Asks the server to which the slot is being moved. None if only a part of the lock's entries has
    /// arrived there.
    async fn ask_elsewhere(&self, call: &Call<'_>, refused: &ServerError) -> Result<Option<Value>> {
        let connection = self.route.connect_elsewhere(refused).await?;
        connection.ask(&[b"ASKING"]).await?;
        let answer = connection.call_with_text(call).await?;
        // The index may arrive before its lock. Then there is a lock, although it was not found.
        if let ([index], Value::Nil | Value::Int(-1)) = (call.keys, &answer) {
            connection.ask(&[b"ASKING"]).await?;
            let index = connection.ask(&[b"GET", index.as_bytes()]).await?;
            return Ok((index == Value::Nil).then_some(answer));
        }
        Ok(Some(answer))
    }
}
