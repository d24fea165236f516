//! The connections of a backend. Each shard has those to its server. They are made on first use, and
//! replaced when they break. Nothing is queued for a server that is away: every operation waits for a
//! connection for a limited time, and then fails.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::config::RedisConfig;
use super::error;
use super::format::layout::Layout;
use super::format::scripts::Call;
use super::servers::dialer::Dialer;
use super::servers::route::Route;
use super::servers::server::Server;
use super::servers::topology::Topology;
use super::watch::Watcher;
use crate::backend::Warnings;
use crate::backend::backoff::Backoff;
use crate::backend::tls::Tls;
use crate::backend::unreachable::{gave_up_after, trying_for};
use crate::error::{Error, ErrorCode, Result};
use crate::net::event_loop::EventLoop;

pub(super) struct Connections {
    pub(super) is_cluster: bool,
    pub(super) shards: Vec<Arc<Shard>>,
    pub(super) watcher: Watcher,
}

/// The connections to the server that has one shard.
pub(super) struct Shard {
    pub(super) route: Route,
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
    /// Prepares the connections.
    pub(super) fn open(
        config: RedisConfig,
        layout: &Layout,
        warnings: Warnings,
        event_loop: Option<Arc<dyn EventLoop>>,
    ) -> Result<Self> {
        let is_cluster = config.is_cluster();
        let dialer = Dialer {
            connect_timeout: config.connect_timeout()?,
            operation_timeout: config.operation_timeout()?,
            login: config.login,
            tls: config.tls.map(Tls::new).transpose()?,
            family: config.family,
            event_loop,
            tracks: false,
            // The keys of a script must be of one slot.
            shares_scripts: !is_cluster,
            pool: Arc::default(),
            warnings,
            warned: Arc::default(),
            dialling: Arc::default(),
        };
        let topology = Arc::new(Topology::open(config.deployment, layout.slots(), &dialer)?);
        let route = |shard, dialer: &Dialer| Route {
            topology: Arc::clone(&topology),
            shard,
            dialer: dialer.for_another(),
        };
        let connections = |shard| Shard {
            route: route(shard, &dialer),
            state: watch::Sender::new(State::Idle),
        };
        let tracking = dialer.for_tracking();
        let shards = 0..layout.shards().len();
        Ok(Self {
            is_cluster,
            watcher: Watcher::new(shards.clone().map(|shard| route(shard, &tracking))),
            shards: shards.map(connections).map(Arc::new).collect(),
        })
    }

    /// Returns why there is no connection, if operations wait for one.
    pub(super) fn obstacle(&self) -> Option<Error> {
        self.shards.iter().find_map(|shard| shard.obstacle())
    }

    pub(super) fn close(&self) {
        self.watcher.close();
        self.shards.iter().for_each(|shard| shard.close());
    }
}

impl Shard {
    /// Runs a script once. A call that the server refused without doing anything is repeated if another
    /// server may have taken over.
    pub(super) async fn run(self: &Arc<Self>, call: &Call<'_>) -> Result<Value> {
        let mut refused = None;
        if let Some(server) = self.current() {
            match server.call(call).await? {
                Value::ServerError(error) => refused = Some((server, error)),
                value => return Ok(value),
            }
        }
        // Boxed, so that the future of the usual case stays small.
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
                    _ => refusal
                        .cloned()
                        .unwrap_or_else(|| self.route.dialer.timed_out()),
                };
                return Err(gave_up(error, asked.elapsed()));
            }
            waited = true;
        }
    }

    /// Returns the option that ended the wait for a silent server. Both options limit it.
    fn shorter_limit(&self) -> &'static str {
        if self.route.dialer.connect_timeout < self.route.dialer.operation_timeout {
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

    fn close(&self) {
        if let State::Up(server) = self.state.send_replace(State::Closed) {
            server.background.end();
        }
    }

    fn obstacle(&self) -> Option<Error> {
        match &*self.state.borrow() {
            State::Connecting { since, error } => {
                let error = error.clone().or_else(|| self.route.dialer.obstacle());
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
        let mut backoff = Backoff::new(self.route.dialer.connect_timeout);
        loop {
            let error = match self.route.connect().await {
                Ok(server) => return self.keep(server).await,
                Err(error) => error,
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
        let over = server.background.over();
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
        // Only the backend keeps the server: when the backend is dropped, the connections end.
        drop(server);
        let shard = Arc::downgrade(&self);
        drop(self);
        over.cancelled().await;
        if let Some(shard) = shard.upgrade() {
            shard.leave(|server| server.is_over());
        }
    }
}

/// Explains an error to an operation that has waited for a connection as long as it may.
pub(super) fn gave_up(error: Error, after: Duration) -> Error {
    gave_up_after(error, after, Some("connectTimeoutMs"))
}
