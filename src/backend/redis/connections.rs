//! The connections to the server that takes the writes of one shard: made when they are needed,
//! replaced when they break. While the server is away nothing is queued for it: each operation waits
//! for a connection, for a bounded time, and fails if there is none.

use std::sync::Arc;
use std::time::Duration;

use redis::{ServerError, Value};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::error;
use super::format::scripts::Call;
use super::servers::dialer::Dialer;
use super::servers::server::Server;
use super::servers::topology::Topology;
use crate::backend::backoff::Backoff;
use crate::backend::unreachable::{gave_up_after, trying_for};
use crate::error::{Error, ErrorCode, Result};
use crate::net::event_loop::EventLoop;

pub(super) struct Connections {
    shared: Arc<Shared>,
}

struct Shared {
    topology: Arc<Topology>,
    shard: usize,
    dialer: Dialer,
    connect_timeout: Duration,
    event_loop: Option<Arc<dyn EventLoop>>,
    state: watch::Sender<State>,
}

#[derive(Clone)]
enum State {
    Idle,
    Connecting {
        since: Instant,
        /// What went wrong with the last attempt.
        error: Option<Error>,
    },
    /// Trying again would not help the operations that wait.
    Rejected(Error),
    Up(Arc<Server>),
    Closed,
}

impl Connections {
    pub(super) fn new(
        topology: Arc<Topology>,
        shard: usize,
        dialer: &Dialer,
        connect_timeout: Duration,
        event_loop: Option<Arc<dyn EventLoop>>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                topology,
                shard,
                dialer: dialer.for_another(),
                connect_timeout,
                event_loop,
                state: watch::Sender::new(State::Idle),
            }),
        }
    }

    /// Runs a script once. What the server refused without doing anything is tried again where
    /// another server may have taken over.
    pub(super) async fn run(&self, call: &Call<'_>) -> Result<Value> {
        let mut refused = None;
        if let Some(server) = self.current() {
            let answer = match server.send_from_event_loop(call) {
                Some(answer) => {
                    let lost = || error::lost().outcome_unknown();
                    answer.await.map_err(|_| lost())??
                }
                // In a box, like what comes below: the future of the usual case stays small.
                None => Box::pin(server.background.call(call)).await?,
            };
            match answer {
                Some(Value::ServerError(error)) => refused = Some((server, error)),
                Some(value) => return Ok(value),
                None => {}
            }
        }
        Box::pin(self.run_with_retries(call, refused)).await
    }

    async fn run_with_retries(
        &self,
        call: &Call<'_>,
        mut refused: Option<(Arc<Server>, ServerError)>,
    ) -> Result<Value> {
        let Shared {
            topology,
            shard,
            connect_timeout,
            ..
        } = &*self.shared;
        let give_up = Instant::now() + *connect_timeout;
        let mut backoff = Backoff::new(*connect_timeout);
        let mut was_moved = false;
        let mut refusal: Option<Error> = None;
        loop {
            let (server, mut error) = match refused.take() {
                Some(refused) => refused,
                None => {
                    let server = self.server(give_up, refusal.as_ref()).await?;
                    let answer = match server.background.call(call).await? {
                        Some(answer) => answer,
                        None => server.background.call_with_text(call).await?,
                    };
                    match answer {
                        Value::ServerError(error) => (server, error),
                        value => return Ok(value),
                    }
                }
            };
            if error::code_of(&error) == "NOSCRIPT" {
                match server.background.call_with_text(call).await? {
                    Value::ServerError(other) => error = other,
                    value => return Ok(value),
                }
            }
            if error::code_of(&error) == "ASK" && topology.can_change() {
                match self.ask_elsewhere(call, &error).await? {
                    Some(Value::ServerError(other)) => error = other,
                    Some(value) => return Ok(value),
                    None => {}
                }
            }
            let code = error::code_of(&error);
            match code {
                "MOVED" | "ASK" if !topology.can_change() => {
                    return Err(error::from_lone_server(&error));
                }
                "MOVED" => {
                    topology.moved(*shard, redirect(&error));
                    self.leave(&server);
                }
                // Also for a plain server: its name may lead to another one by now.
                "READONLY" | "MASTERDOWN" | "CLUSTERDOWN" | "LOADING" => self.leave(&server),
                "TRYAGAIN" | "ASK" => {}
                _ => return Err(error::from_server(&error)),
            }
            if Instant::now() >= give_up {
                return Err(gave_up(error::from_server(&error), *connect_timeout));
            }
            refusal = Some(error::from_server(&error));
            // A second redirection in a row waits, as any other retry does.
            if code == "MOVED" && !std::mem::replace(&mut was_moved, true) {
                continue;
            }
            backoff.wait().await;
        }
    }

    /// The next request looks for a server again. This one serves the requests that it has, and other
    /// shards.
    fn leave(&self, server: &Arc<Server>) {
        self.shared.state.send_if_modified(|state| {
            let is_current = matches!(state, State::Up(up) if Arc::ptr_eq(up, server));
            if is_current {
                *state = State::Idle;
            }
            is_current
        });
    }

    pub(super) fn close(&self) {
        if let State::Up(server) = self.shared.state.send_replace(State::Closed) {
            server.background.end();
        }
    }

    /// Why there is no connection, while operations wait for one.
    pub(super) fn obstacle(&self) -> Option<Error> {
        match &*self.shared.state.borrow() {
            State::Connecting { since, error } => {
                let error = error.clone().or_else(|| self.shared.dialer.obstacle());
                error.map(|error| trying_for(error, since.elapsed()))
            }
            State::Rejected(error) => Some(error.clone()),
            State::Idle | State::Up(_) | State::Closed => None,
        }
    }

    fn current(&self) -> Option<Arc<Server>> {
        match &*self.shared.state.borrow() {
            State::Up(server) if !server.is_over() => Some(Arc::clone(server)),
            _ => None,
        }
    }

    /// `refusal` is what a server said before, to be told if nothing else is known at the deadline.
    async fn server(&self, deadline: Instant, refusal: Option<&Error>) -> Result<Arc<Server>> {
        let asked = Instant::now();
        let mut states = self.shared.state.subscribe();
        let mut waited = false;
        loop {
            let state = states.borrow_and_update().clone();
            match state {
                State::Up(server) if !server.is_over() => return Ok(server),
                State::Rejected(error) if waited => {
                    return Err(match error.code {
                        ErrorCode::NetworkTimeout => {
                            gave_up_after(error, asked.elapsed(), Some(self.shorter_limit()))
                        }
                        // It was not tried again.
                        _ => error,
                    });
                }
                State::Closed => return Err(error::closed()),
                State::Connecting { .. } => {}
                State::Idle | State::Up(_) | State::Rejected(_) => self.start_connecting(),
            }
            if timeout_at(deadline, states.changed()).await.is_err() {
                let error = match &*states.borrow() {
                    State::Connecting {
                        error: Some(error), ..
                    }
                    | State::Rejected(error) => error.clone(),
                    _ => refusal
                        .cloned()
                        .unwrap_or_else(|| self.shared.dialer.timed_out()),
                };
                return Err(gave_up(error, asked.elapsed()));
            }
            waited = true;
        }
    }

    /// Returns the option that ended the wait for a silent server: both limit it.
    fn shorter_limit(&self) -> &'static str {
        if self.shared.connect_timeout < self.shared.dialer.operation_timeout {
            "connectTimeoutMs"
        } else {
            "operationTimeoutMs"
        }
    }

    fn start_connecting(&self) {
        let started = self.shared.state.send_if_modified(|state| match state {
            State::Connecting { .. } | State::Closed => false,
            State::Up(server) if !server.is_over() => false,
            _ => {
                *state = State::Connecting {
                    since: Instant::now(),
                    error: None,
                };
                true
            }
        });
        if started {
            tokio::spawn(connect(Arc::clone(&self.shared)));
        }
    }

    /// Asks the server that the slot is moving to. None if only part of what belongs to the key has
    /// come there.
    async fn ask_elsewhere(&self, call: &Call<'_>, refused: &ServerError) -> Result<Option<Value>> {
        let Shared {
            topology,
            dialer,
            connect_timeout,
            ..
        } = &*self.shared;
        let connecting = topology.connect_to(dialer, redirect(refused));
        let connection = timeout(*connect_timeout, connecting)
            .await
            .map_err(|_| dialer.timed_out())??;
        connection.ask(&[b"ASKING"]).await?;
        let answer = connection.call_with_text(call).await?;
        // An index may come before its lock: then there is a lock, though it was not found.
        if let ([index], Value::Nil | Value::Int(-1)) = (call.keys, &answer) {
            connection.ask(&[b"ASKING"]).await?;
            let index = connection.ask(&[b"GET", index.as_bytes()]).await?;
            return Ok((index == Value::Nil).then_some(answer));
        }
        Ok(Some(answer))
    }
}

/// Tries until there is a connection, no operation waits for one any more, or trying again makes no
/// sense.
async fn connect(shared: Arc<Shared>) {
    let mut backoff = Backoff::new(shared.connect_timeout);
    loop {
        // When one of several servers is asked for the way, a dead one must leave time for the others.
        let attempt =
            shared
                .topology
                .connect(shared.shard, &shared.dialer, shared.connect_timeout / 3);
        let error = match timeout(shared.connect_timeout, attempt).await {
            Ok(Ok(server)) => return keep(shared, server).await,
            Ok(Err(error)) => error,
            Err(_) => shared.dialer.timed_out(),
        };
        let go_on = error.code == ErrorCode::ServiceUnavailable;
        let mut stopped = false;
        shared.state.send_if_modified(|state| {
            let nobody_waits = shared.state.receiver_count() == 0;
            stopped = matches!(state, State::Closed) || nobody_waits || !go_on;
            match state {
                State::Closed => return false,
                _ if nobody_waits => *state = State::Idle,
                _ if !go_on => *state = State::Rejected(error.clone()),
                State::Connecting { error: last, .. } => *last = Some(error.clone()),
                _ => return false,
            }
            true
        });
        if stopped {
            return;
        }
        backoff.wait().await;
    }
}

/// Lends the server to operations until its connection is over.
async fn keep(shared: Arc<Shared>, server: Arc<Server>) {
    let over = server.over();
    let up = State::Up(Arc::clone(&server));
    let kept = shared.state.send_if_modified(|state| {
        let open = !matches!(state, State::Closed);
        if open {
            *state = up;
        }
        open
    });
    if !kept {
        return;
    }
    if let Some(event_loop) = shared.event_loop.clone() {
        server.connect_event_loop(&shared.dialer, event_loop, shared.connect_timeout);
    }
    // Only the backend keeps the server: when it is dropped, the connections end.
    drop(server);
    let shared = {
        let weak = Arc::downgrade(&shared);
        drop(shared);
        over.cancelled().await;
        weak.upgrade()
    };
    if let Some(shared) = shared {
        shared.state.send_if_modified(|state| {
            let over = matches!(state, State::Up(server) if server.is_over());
            if over {
                *state = State::Idle;
            }
            over
        });
    }
}

/// Why an operation fails that has waited for a connection as long as it may.
fn gave_up(error: Error, after: Duration) -> Error {
    gave_up_after(error, after, Some("connectTimeoutMs"))
}

/// The address in `MOVED slot address`.
pub(super) fn redirect(refused: &ServerError) -> &str {
    refused
        .details()
        .and_then(|details| details.split_ascii_whitespace().nth(1))
        .unwrap_or_default()
}
