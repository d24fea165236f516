//! The pool of sessions and the way of one call, bounded in time.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{Object, Pool, PoolError, QueueMode, TimeoutType, Timeouts, WeakPool};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::SimpleQueryRow;

use super::config::Checked;
use super::connect::{Dialer, Ear, Session, deaf, rows_of};
use super::error;
use super::lane::{LaneSlot, OnLane};
use super::sql::{Call, Statements};
use crate::error::{Error, Result};
use crate::event_loop::EventLoop;

/// The smallest pool that can spare a session for the event loop. What does not depend on that, as
/// heartbeats must not, has the others.
const WITH_LANE: usize = 3;

#[derive(Clone)]
pub(super) struct Client {
    pool: Pool<Dialer>,
    lane: Option<Arc<LaneSlot>>,
    connect_timeout: Duration,
    operation_timeout: Duration,
    /// How long before us the server gives up, so that its word on the matter comes in time.
    margin: Duration,
    /// Why the last attempt to connect failed, until there is a connection.
    obstacle: Arc<Mutex<Option<Error>>>,
}

/// What became of a request.
enum Exchange {
    Done(Result<Vec<SimpleQueryRow>>),
    /// The statements are not there: nothing was run.
    NotPrepared,
}

impl Client {
    pub(super) fn new(config: Checked, home: Option<Arc<dyn EventLoop>>) -> Result<Self> {
        let statements = Statements::new(&config.locks, &config.counters);
        let margin = (config.operation_timeout / 5).min(Duration::from_secs(1));
        let dialer = Dialer::new(
            config.target,
            statements,
            config.operation_timeout - margin,
            config.prepare,
        );
        let has_lane = config.pool_size >= WITH_LANE && dialer.can_have_lane();
        let lane = home.filter(|_| has_lane).map(LaneSlot::new);
        let pool = Pool::builder(dialer)
            .max_size(config.pool_size - usize::from(lane.is_some()))
            // Those that were used last are warm, here and in the server.
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|cause| Error::internal("The pool could not be made").cause(cause))?;
        tokio::spawn(close_idle(
            pool.weak(),
            lane.as_ref().map(Arc::downgrade),
            config.idle_timeout,
        ));
        Ok(Self {
            pool,
            lane,
            connect_timeout: config.connect_timeout,
            operation_timeout: config.operation_timeout,
            margin,
            obstacle: Arc::default(),
        })
    }

    pub(super) fn statements(&self) -> &Statements {
        self.pool.manager().statements()
    }

    pub(super) fn close(&self) {
        self.pool.close();
        if let Some(lane) = &self.lane {
            lane.close();
        }
    }

    pub(super) fn obstacle(&self) -> Option<Error> {
        lock(&self.obstacle).clone()
    }

    /// Until when what begins now must have ended.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.operation_timeout
    }

    /// Whether a request makes sense before then.
    pub(super) fn has_time(&self, deadline: Instant) -> bool {
        !self.time_for_server(deadline).is_zero()
    }

    fn time_for_server(&self, deadline: Instant) -> Duration {
        deadline
            .saturating_duration_since(Instant::now())
            .saturating_sub(self.margin)
    }

    /// As [`rows`](Self::rows). Returns the last row.
    pub(super) async fn call(&self, call: Call<'_>) -> Result<Option<SimpleQueryRow>> {
        Ok(self.rows(call).await?.pop())
    }

    /// Runs the statements as one transaction, in one round trip.
    pub(super) async fn rows(&self, call: Call<'_>) -> Result<Vec<SimpleQueryRow>> {
        self.rows_by(self.deadline(), call).await
    }

    pub(super) async fn rows_by(
        &self,
        deadline: Instant,
        call: Call<'_>,
    ) -> Result<Vec<SimpleQueryRow>> {
        self.send(deadline, |session, left| {
            self.pool.manager().write(session, call, left)
        })
        .await
    }

    /// Runs what does not fit a [`Call`].
    pub(super) async fn ask(&self, message: &str) -> Result<Vec<SimpleQueryRow>> {
        self.send(self.deadline(), |_, _| message.to_owned()).await
    }

    /// `write` gets the session and how long the server may take.
    async fn send(
        &self,
        deadline: Instant,
        write: impl Fn(&Session, Duration) -> String,
    ) -> Result<Vec<SimpleQueryRow>> {
        loop {
            let session = match self
                .lane
                .as_ref()
                .and_then(|lane| lane.take(self.pool.manager()))
            {
                Some(session) => Taken::OnLane(session),
                None => Taken::FromPool(self.session(deadline).await?),
            };
            let left = self.time_for_server(deadline);
            if left.is_zero() {
                return Err(self.busy());
            }
            let message = write(&session, left);
            match self.exchange(session, &message, deadline).await {
                Exchange::Done(result) => return result,
                // Happens once: then nothing is prepared any more.
                Exchange::NotPrepared => self.pool.manager().give_up_preparing(),
            }
        }
    }

    /// Runs a message on a connection of its own.
    pub(super) async fn alone(
        &self,
        messages: impl AsyncFnOnce(&Session) -> Result<()>,
    ) -> Result<()> {
        let session = self.connect(deaf()).await?;
        timeout(self.operation_timeout, messages(&session))
            .await
            .unwrap_or_else(|_| Err(self.operation_timeout()))
    }

    /// A connection outside of the pool.
    pub(super) async fn connect(&self, ear: Ear) -> Result<Session> {
        timeout(self.connect_timeout, self.pool.manager().bare(ear))
            .await
            .unwrap_or_else(|_| Err(self.connect_timeout()))
    }

    async fn session(&self, deadline: Instant) -> Result<Object<Dialer>> {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeouts = Timeouts {
            wait: Some(left),
            create: Some(left.min(self.connect_timeout)),
            recycle: None,
        };
        let result = match timeout_at(deadline, self.pool.timeout_get(&timeouts)).await {
            Ok(Ok(session)) => Ok(session),
            Ok(Err(PoolError::Backend(error))) => Err(error),
            Ok(Err(PoolError::Timeout(TimeoutType::Create))) => Err(self.connect_timeout()),
            Ok(Err(PoolError::Timeout(_))) | Err(_) => return Err(self.busy()),
            Ok(Err(PoolError::Closed)) => {
                return Err(Error::invalid_argument(
                    "This backend is closed: create a new one",
                ));
            }
            Ok(Err(_)) => return Err(Error::internal("The pool of connections failed")),
        };
        *lock(&self.obstacle) = result.as_ref().err().cloned();
        result
    }

    fn server(&self) -> &str {
        self.pool.manager().server()
    }

    fn busy(&self) -> Error {
        let server = self.server();
        Error::timeout(format!(
            "No connection to {server} was ready in time: all of the pool are busy, or connecting takes long"
        ))
    }

    fn connect_timeout(&self) -> Error {
        Error::timeout(format!(
            "{} did not accept a connection in time",
            self.server()
        ))
    }

    fn operation_timeout(&self) -> Error {
        Error::timeout(format!("{} did not answer in time", self.server()))
    }

    async fn exchange(&self, session: Taken<'_>, message: &str, deadline: Instant) -> Exchange {
        match timeout_at(deadline, session.run(message)).await {
            Ok(Ok(messages)) => {
                if let (Some(lane), Taken::FromPool(session)) = (&self.lane, &session)
                    && session.is_prepared()
                {
                    lane.make(&self.pool, self.connect_timeout);
                }
                Exchange::Done(Ok(rows_of(messages)))
            }
            Ok(Err(cause)) if session.is_prepared() && error::session_is_shared(&cause) => {
                Exchange::NotPrepared
            }
            Ok(Err(cause)) => {
                if !error::keeps_connection(&cause) {
                    session.give_up();
                }
                Exchange::Done(Err(error::of_request(&cause, self.server())))
            }
            Err(_) => {
                session.give_up();
                // A server that is silent on one connection is so on the others: those that are
                // idle would each cost another call its time.
                self.pool.retain(|_, _| false);
                if let Some(lane) = &self.lane {
                    lane.close_idle(Duration::ZERO);
                }
                Exchange::Done(Err(self.operation_timeout().outcome_unknown()))
            }
        }
    }
}

/// Closes what has not been used for a while, as long as there is a pool.
async fn close_idle(pool: WeakPool<Dialer>, lane: Option<Weak<LaneSlot>>, idle_timeout: Duration) {
    loop {
        sleep(idle_timeout / 2).await;
        let Some(pool) = pool.upgrade().filter(|pool| !pool.is_closed()) else {
            return;
        };
        pool.retain(|_, metrics| metrics.last_used() < idle_timeout);
        if let Some(lane) = lane.as_ref().and_then(Weak::upgrade) {
            lane.close_idle(idle_timeout);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A session, in use.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each request, and it is not moved about"
)]
enum Taken<'a> {
    FromPool(Object<Dialer>),
    OnLane(OnLane<'a>),
}

impl Taken<'_> {
    /// Ends it.
    fn give_up(self) {
        match self {
            Self::FromPool(session) => drop(Object::take(session)),
            Self::OnLane(session) => session.give_up(),
        }
    }
}

impl Deref for Taken<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        match self {
            Self::FromPool(session) => session,
            Self::OnLane(session) => session,
        }
    }
}
