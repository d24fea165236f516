//! The connection to the server that takes the writes: made when it is needed, replaced when it
//! breaks. While the server is away nothing is queued for it: each operation waits for a
//! connection, for a bounded time, and fails when there is none.

use std::sync::Arc;
use std::time::Duration;

use redis::{ServerError, ServerErrorKind, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::connection::Connection;
use super::dialer::Dialer;
use super::topology::Topology;
use crate::backend::redis::error;
use crate::backend::redis::format::scripts::Call;
use crate::error::{Error, ErrorCode, Result};
use crate::event_loop::EventLoop;

const FIRST_DELAY: Duration = Duration::from_millis(20);
const MAX_DELAY: Duration = Duration::from_secs(1);

pub(crate) struct Link {
    shared: Arc<Shared>,
}

struct Shared {
    topology: Arc<Topology>,
    /// Of the locks that it is for.
    place: usize,
    dialer: Dialer,
    connect_timeout: Duration,
    home: Option<Arc<dyn EventLoop>>,
    state: watch::Sender<State>,
}

#[derive(Clone)]
enum State {
    Idle,
    /// With what went wrong so far.
    Connecting(Option<Error>),
    /// There is no use in trying again for those who wait.
    Rejected(Error),
    Up(Arc<Connection>),
    Closed,
}

/// Delays that double, with jitter.
pub(crate) struct Backoff {
    delay: Duration,
    longest: Duration,
}

impl Backoff {
    /// Whoever has `patience` sees several attempts, whenever it comes.
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            delay: FIRST_DELAY,
            longest: MAX_DELAY.min(patience / 4).max(FIRST_DELAY),
        }
    }

    pub(crate) async fn wait(&mut self) {
        sleep(self.delay.mul_f64(rand::random_range(0.5..1.0))).await;
        self.delay = (self.delay * 2).min(self.longest);
    }
}

impl Link {
    pub(crate) fn new(
        topology: Arc<Topology>,
        place: usize,
        dialer: &Dialer,
        connect_timeout: Duration,
        home: Option<Arc<dyn EventLoop>>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                topology,
                place,
                dialer: Dialer {
                    dialling: Arc::default(),
                    ..dialer.clone()
                },
                connect_timeout,
                home,
                state: watch::Sender::new(State::Idle),
            }),
        }
    }

    /// Runs a script once. What the server refused without doing anything is tried again where
    /// another server may have taken over.
    pub(crate) async fn run(&self, call: &Call<'_>) -> Result<Value> {
        let mut refused = None;
        if let Some(connection) = self.current() {
            let sent = connection.lane().send(call);
            let answer = match sent {
                Some(answer) => answer
                    .await
                    .map_err(|_| error::lost().outcome_unknown())??,
                // In a box, as what comes below: the future of the usual case stays small.
                None => Some(Box::pin(connection.ask(&call.by_hash())).await?),
            };
            match answer {
                Some(Value::ServerError(error)) => refused = Some((connection, error)),
                Some(value) => return Ok(value),
                None => {}
            }
        }
        Box::pin(self.run_with_trouble(call, refused)).await
    }

    async fn run_with_trouble(
        &self,
        call: &Call<'_>,
        mut refused: Option<(Arc<Connection>, ServerError)>,
    ) -> Result<Value> {
        let Shared {
            topology,
            place,
            connect_timeout,
            ..
        } = &*self.shared;
        let give_up = Instant::now() + *connect_timeout;
        let mut backoff = Backoff::new(*connect_timeout);
        let mut was_moved = false;
        loop {
            let (connection, mut error) = match refused.take() {
                Some(refused) => refused,
                None => {
                    let connection = self.connection(give_up).await?;
                    match connection.ask(&call.by_hash()).await? {
                        Value::ServerError(error) => (connection, error),
                        value => return Ok(value),
                    }
                }
            };
            if error.kind() == Some(ServerErrorKind::NoScript) {
                match connection.ask(&call.by_text()).await? {
                    Value::ServerError(other) => error = other,
                    value => return Ok(value),
                }
            }
            if error.kind() == Some(ServerErrorKind::Ask) && topology.can_change() {
                match self.ask_elsewhere(call, &error).await? {
                    Some(Value::ServerError(other)) => error = other,
                    Some(value) => return Ok(value),
                    None => {}
                }
            }
            match error.kind() {
                Some(ServerErrorKind::Moved) => {
                    topology.moved(*place, redirect(&error));
                    self.leave(&connection);
                }
                // Also for a plain server: its name may lead to another one by now.
                Some(
                    ServerErrorKind::ReadOnly
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::ClusterDown,
                ) => self.leave(&connection),
                Some(ServerErrorKind::TryAgain | ServerErrorKind::Ask) => {}
                _ if error::is_on_its_way(&error) => {}
                _ => return Err(error::from_server(&error)),
            }
            if !topology.can_change() {
                return Err(error::from_lone_server(&error));
            }
            if Instant::now() >= give_up {
                return Err(error::from_server(&error));
            }
            let is_moved = error.kind() == Some(ServerErrorKind::Moved);
            // Whoever is sent on once too often waits, as all who find nobody do.
            if is_moved && !std::mem::replace(&mut was_moved, true) {
                continue;
            }
            backoff.wait().await;
        }
    }

    /// The next request finds another connection. This one serves those who have it, and other places.
    fn leave(&self, connection: &Arc<Connection>) {
        self.shared.state.send_if_modified(|state| {
            let is_current = matches!(state, State::Up(up) if Arc::ptr_eq(up, connection));
            if is_current {
                *state = State::Idle;
            }
            is_current
        });
    }

    pub(crate) fn close(&self) {
        if let State::Up(connection) = self.shared.state.send_replace(State::Closed) {
            connection.end();
        }
    }

    pub(crate) fn obstacle(&self) -> Option<Error> {
        match &*self.shared.state.borrow() {
            State::Connecting(error) => error.clone(),
            State::Rejected(error) => Some(error.clone()),
            State::Idle | State::Up(_) | State::Closed => None,
        }
    }

    fn current(&self) -> Option<Arc<Connection>> {
        match &*self.shared.state.borrow() {
            State::Up(connection) if !connection.is_over() => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    async fn connection(&self, deadline: Instant) -> Result<Arc<Connection>> {
        let mut states = self.shared.state.subscribe();
        let mut waited = false;
        loop {
            let state = states.borrow_and_update().clone();
            match state {
                State::Up(connection) if !connection.is_over() => return Ok(connection),
                State::Rejected(error) if waited => return Err(error),
                State::Closed => return Err(error::closed()),
                State::Connecting(_) => {}
                State::Idle | State::Up(_) | State::Rejected(_) => self.start_connecting(),
            }
            if timeout_at(deadline, states.changed()).await.is_err() {
                return Err(match &*states.borrow() {
                    State::Connecting(Some(error)) | State::Rejected(error) => error.clone(),
                    _ => self.shared.dialer.timed_out(),
                });
            }
            waited = true;
        }
    }

    fn start_connecting(&self) {
        let started = self.shared.state.send_if_modified(|state| match state {
            State::Connecting(_) | State::Closed => false,
            State::Up(connection) if !connection.is_over() => false,
            _ => {
                *state = State::Connecting(None);
                true
            }
        });
        if started {
            tokio::spawn(connect(Arc::clone(&self.shared)));
        }
    }

    /// The slot is being moved, and this key's part is over there already. Nothing when it has come
    /// only in part.
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
        connection.ask(&redis::cmd("ASKING")).await?;
        let answer = connection.ask(&call.by_text()).await?;
        // An index may come before its lock: then there is a lock, though it was not found.
        if let ([index], Value::Nil | Value::Int(-1)) = (call.keys, &answer) {
            connection.ask(&redis::cmd("ASKING")).await?;
            let index = connection.ask(redis::cmd("GET").arg(*index)).await?;
            return Ok((index == Value::Nil).then_some(answer));
        }
        Ok(Some(answer))
    }
}

/// The address in `MOVED slot address`.
pub(crate) fn redirect(refused: &ServerError) -> &str {
    refused
        .details()
        .and_then(|details| details.split_ascii_whitespace().nth(1))
        .unwrap_or_default()
}

/// Tries until there is a connection, nobody waits for one any more, or it makes no sense.
async fn connect(shared: Arc<Shared>) {
    let mut backoff = Backoff::new(shared.connect_timeout);
    loop {
        // When one of several servers is asked for the way, a dead one must leave time for the others.
        let attempt =
            shared
                .topology
                .connect(shared.place, &shared.dialer, shared.connect_timeout / 3);
        let error = match timeout(shared.connect_timeout, attempt).await {
            Ok(Ok(connection)) => return keep(shared, connection).await,
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
                _ => *state = State::Connecting(Some(error.clone())),
            }
            true
        });
        if stopped {
            return;
        }
        backoff.wait().await;
    }
}

/// Gives the connection a lane, if nobody has. Without one it is as good, only slower.
fn open_lane(shared: &Shared, connection: &Connection) {
    let Some(home) = shared.home.clone() else {
        return;
    };
    if !connection.lane().claim() {
        return;
    }
    let dialer = Dialer {
        dialling: Arc::default(),
        ..shared.dialer.clone()
    };
    let limit = shared.connect_timeout;
    // In a cluster the keys of a script must be of one place.
    let joins = !shared.topology.is_cluster();
    let (node, slot, over) = (
        connection.node().clone(),
        connection.lane(),
        connection.over(),
    );
    tokio::spawn(async move {
        let dialling = timeout(limit, dialer.dial_lane(&node, home, over.clone(), joins));
        if let Some(Ok(Ok(lane))) = over.run_until_cancelled(dialling).await {
            slot.set(lane);
            over.cancelled().await;
            if let Some(lane) = slot.take() {
                lane.retire().await;
            }
        }
    });
}

/// Hands the connection out until it is over.
async fn keep(shared: Arc<Shared>, connection: Arc<Connection>) {
    let over = connection.over();
    let up = State::Up(Arc::clone(&connection));
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
    open_lane(&shared, &connection);
    // Only the backend keeps the connection: when it is dropped, so is the connection.
    drop(connection);
    let shared = {
        let weak = Arc::downgrade(&shared);
        drop(shared);
        over.cancelled().await;
        weak.upgrade()
    };
    if let Some(shared) = shared {
        shared.state.send_if_modified(|state| {
            let over = matches!(state, State::Up(connection) if connection.is_over());
            if over {
                *state = State::Idle;
            }
            over
        });
    }
}
