//! The connections to the server that has one shard. They are made on first use, and replaced when
//! they break. Nothing is queued for a server that is away: every operation waits for a connection for
//! a limited time, and then fails.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
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
    pub(super) topology: Arc<Topology>,
    pub(super) shard: usize,
    pub(super) dialer: Dialer,
    pub(super) connect_timeout: Duration,
    event_loop: Option<Arc<dyn EventLoop>>,
    state: watch::Sender<State>,
}

#[derive(Clone)]
enum State {
    Idle,
    Connecting {
        since: Instant,
        /// Why the last attempt failed.
        error: Option<Error>,
    },
    /// Connecting failed, and another attempt would fail as well.
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
    ) -> Arc<Self> {
        Arc::new(Self {
            topology,
            shard,
            dialer: dialer.for_another(),
            connect_timeout,
            event_loop,
            state: watch::Sender::new(State::Idle),
        })
    }

    /// Runs a script once. A call that the server refused without doing anything is repeated if another
    /// server may have taken over.
    pub(super) async fn run(self: &Arc<Self>, call: &Call<'_>) -> Result<Value> {
        let mut refused = None;
        if let Some(server) = self.current() {
            let answer = match server.send_from_event_loop(call) {
                Some(answer) => {
                    let lost = || error::lost().outcome_unknown();
                    answer.await.map_err(|_| lost())??
                }
                // Boxed like the retries below, so that the future of the usual case stays small.
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

    /// Returns the connected server, if there is one.
    fn current(&self) -> Option<Arc<Server>> {
        match &*self.state.borrow() {
            State::Up(server) if !server.is_over() => Some(Arc::clone(server)),
            _ => None,
        }
    }

    /// Waits for a server. `refusal` is what a server answered before. It is returned if nothing else
    /// is known at the deadline.
    pub(super) async fn server(
        self: &Arc<Self>,
        deadline: Instant,
        refusal: Option<&Error>,
    ) -> Result<Arc<Server>> {
        let asked = Instant::now();
        let mut states = self.state.subscribe();
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
                        // There was only one attempt.
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
                    _ => refusal.cloned().unwrap_or_else(|| self.dialer.timed_out()),
                };
                return Err(gave_up(error, asked.elapsed()));
            }
            waited = true;
        }
    }

    /// Returns the option that ended the wait for a silent server. Both options limit it.
    fn shorter_limit(&self) -> &'static str {
        if self.connect_timeout < self.dialer.operation_timeout {
            "connectTimeoutMs"
        } else {
            "operationTimeoutMs"
        }
    }

    /// Stops using the server if `is_left` says so. The next request looks for a server again. The old
    /// one answers the requests that it has, and serves other shards.
    pub(super) fn leave(&self, is_left: impl FnOnce(&Arc<Server>) -> bool) {
        self.state.send_if_modified(|state| {
            let leaves = matches!(state, State::Up(server) if is_left(server));
            if leaves {
                *state = State::Idle;
            }
            leaves
        });
    }

    pub(super) fn close(&self) {
        if let State::Up(server) = self.state.send_replace(State::Closed) {
            server.background.end();
        }
    }

    /// Returns why there is no connection, if operations wait for one.
    pub(super) fn obstacle(&self) -> Option<Error> {
        match &*self.state.borrow() {
            State::Connecting { since, error } => {
                let error = error.clone().or_else(|| self.dialer.obstacle());
                error.map(|error| trying_for(error, since.elapsed()))
            }
            State::Rejected(error) => Some(error.clone()),
            State::Idle | State::Up(_) | State::Closed => None,
        }
    }

    fn start_connecting(self: &Arc<Self>) {
        let started = self.state.send_if_modified(|state| match state {
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
            tokio::spawn(Arc::clone(self).connect());
        }
    }

    /// Tries until there is a connection, until no operation waits for one, or until another attempt
    /// makes no sense.
    async fn connect(self: Arc<Self>) {
        let mut backoff = Backoff::new(self.connect_timeout);
        loop {
            // If several servers can tell the way, a dead one must leave time for the others.
            let limit = self.connect_timeout / 3;
            let attempt = self.topology.connect(self.shard, &self.dialer, limit);
            let error = match timeout(self.connect_timeout, attempt).await {
                Ok(Ok(server)) => return self.keep(server).await,
                Ok(Err(error)) => error,
                Err(_) => self.dialer.timed_out(),
            };
            if !self.tries_again_after(error) {
                return;
            }
            backoff.wait().await;
        }
    }

    fn tries_again_after(&self, error: Error) -> bool {
        let may_pass = error.code == ErrorCode::ServiceUnavailable;
        let has_waiters = self.state.receiver_count() > 0;
        self.state.send_if_modified(|state| {
            match state {
                State::Closed => return false,
                _ if !has_waiters => *state = State::Idle,
                _ if !may_pass => *state = State::Rejected(error),
                State::Connecting { error: last, .. } => *last = Some(error),
                _ => return false,
            }
            true
        });
        has_waiters && may_pass && !matches!(*self.state.borrow(), State::Closed)
    }

    /// Lends the server to operations until its connection is over.
    async fn keep(self: Arc<Self>, server: Arc<Server>) {
        let over = server.over();
        let is_closed = !self.state.send_if_modified(|state| {
            let is_open = !matches!(state, State::Closed);
            if is_open {
                *state = State::Up(Arc::clone(&server));
            }
            is_open
        });
        if is_closed {
            return;
        }
        if let Some(event_loop) = self.event_loop.clone() {
            server.connect_event_loop(&self.dialer, event_loop, self.connect_timeout);
        }
        // Only the backend keeps the server: when the backend is dropped, the connections end.
        drop(server);
        let connections = Arc::downgrade(&self);
        drop(self);
        over.cancelled().await;
        if let Some(connections) = connections.upgrade() {
            connections.leave(|server| server.is_over());
        }
    }
}

/// Explains an error to an operation that has waited for a connection as long as it may.
pub(super) fn gave_up(error: Error, after: Duration) -> Error {
    gave_up_after(error, after, Some("connectTimeoutMs"))
}
