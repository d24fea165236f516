//! How connections are made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use tokio_postgres::{Config, NoTls};

use super::params::Target;
use super::session::{DriverResult, Ear, Session, deaf, first_of};
use super::socket;
use super::tls::Connector;
use super::wire::Wire;
use crate::backend::postgres::error;
use crate::backend::postgres::sql::{self, Call, Statements};
use crate::error::{Error, Result};
use crate::event_loop::EventLoop;

/// Makes the sessions of the pool.
///
/// A session of our own has settings and prepared statements. Behind a pooler that hands out
/// another session for each transaction both would be lost, or worse, found by strangers. So the
/// settings are given when connecting, which such a pooler refuses or ignores: either shows that
/// it is there, and from then on every message brings along what it needs.
pub(crate) struct Dialer {
    target: Target,
    statements: Statements,
    statement_timeout: Duration,
    own_sessions: AtomicBool,
}

impl Dialer {
    pub(crate) fn new(
        target: Target,
        statements: Statements,
        statement_timeout: Duration,
        prepare: bool,
    ) -> Self {
        Self {
            target,
            statements,
            statement_timeout,
            own_sessions: AtomicBool::new(prepare),
        }
    }

    pub(crate) fn statements(&self) -> &Statements {
        &self.statements
    }

    /// What it is called in messages.
    pub(crate) fn server(&self) -> &Arc<str> {
        &self.target.server
    }

    fn explain(&self, cause: &tokio_postgres::Error) -> Error {
        error::from_driver(cause, self.server())
    }

    /// `left` is how long the server may take. It gives up by itself then: a request to cancel
    /// can come too early or too late, or hit another operation.
    pub(crate) fn write(&self, session: &Session, call: Call<'_>, left: Duration) -> String {
        if !session.prepared {
            return sql::spelled_out(call, milliseconds(left));
        }
        // The session's own setting is near enough, unless the wait for the session was long.
        let timed = left < self.statement_timeout.mul_f32(0.9);
        sql::prepared(call, milliseconds(left), timed)
    }

    /// From now on no session is taken for our own.
    pub(crate) fn give_up_preparing(&self) {
        self.own_sessions.store(false, Ordering::Relaxed);
    }

    /// Without settings and prepared statements.
    pub(crate) async fn bare(&self, ear: Ear) -> Result<Session> {
        let dialled = self.dial(None, ear).await?;
        dialled.map_err(|cause| self.explain(&cause))
    }

    /// A session that the event loop serves. Only where it is certain which server it leads to, and
    /// that the session is our own: whoever has a session in the pool knows.
    pub(crate) async fn lane(&self, home: Arc<dyn EventLoop>) -> Result<Session> {
        let config = self.config(Some(&self.settings()));
        let server = self.server();
        let unreachable =
            |cause| Error::unavailable(format!("{server} could not be reached")).cause(cause);
        let socket = socket::dial(&config).await.map_err(unreachable)?;
        let mut session = match Connector::of(&self.target).await? {
            Some(tls) => {
                let tls = tls.for_host::<Wire>(socket::host(&config))?;
                Session::connect_lane(&config, socket, tls, server, home).await?
            }
            None => Session::connect_lane(&config, socket, NoTls, server, home).await?,
        };
        session.prepared = self.prepare(&session).await?;
        Ok(session)
    }

    pub(crate) fn can_have_lane(&self) -> bool {
        socket::is_of_one_server(&self.target.config)
    }

    fn config(&self, settings: Option<&str>) -> Config {
        let mut config = self.target.config.clone();
        if let Some(settings) = settings {
            let options = match config.get_options() {
                Some(given) => format!("{given} {settings}"),
                None => settings.to_owned(),
            };
            config.options(options);
        }
        config
    }

    /// The inner result is the driver's, for the caller to look at.
    async fn dial(&self, settings: Option<&str>, ear: Ear) -> Result<DriverResult<Session>> {
        let config = self.config(settings);
        let server = &self.target.server;
        Ok(match Connector::of(&self.target).await? {
            Some(tls) => Session::connect(&config, tls, server, ear).await,
            None => Session::connect(&config, NoTls, server, ear).await,
        })
    }

    /// Whether a session that is idle can be used.
    pub(crate) fn is_usable(&self, session: &Session) -> bool {
        !session.is_closed() && (!session.prepared || self.own_sessions.load(Ordering::Relaxed))
    }

    /// Whether the session is our own and has its statements now.
    async fn prepare(&self, session: &Session) -> Result<bool> {
        let asked = "SELECT current_setting('syncguard.session', true)";
        if first_of(&session.ask(asked).await?) != Some("own") {
            return Ok(false);
        }
        match session.run(&self.statements.prepare_all()).await {
            Ok(_) => Ok(true),
            Err(cause) if error::session_is_shared(&cause) => Ok(false),
            Err(cause) => Err(self.explain(&cause)),
        }
    }

    /// - `statement_timeout`: the server gives up before we do, and says so for certain;
    ///   `lock_timeout` would be another code for the same thing.
    /// - Isolation: see the SQL files. In a stricter one, waiting for a lock ends in 40001.
    /// - Planning: a plan made while the tables were small would scan them; a plan for each call
    ///   costs more than the call; compiling to machine code costs far more.
    fn settings(&self) -> String {
        format!(
            "-c syncguard.session=own -c statement_timeout={} -c lock_timeout=0 \
             -c default_transaction_isolation=read\\ committed \
             -c enable_seqscan=off -c plan_cache_mode=force_generic_plan -c jit=off",
            milliseconds(self.statement_timeout)
        )
    }
}

/// At least one: zero would mean without end.
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis())
        .unwrap_or(u64::MAX)
        .max(1)
}

impl Manager for Dialer {
    type Type = Session;
    type Error = Error;

    async fn create(&self) -> Result<Session> {
        if self.own_sessions.load(Ordering::Relaxed) {
            match self.dial(Some(&self.settings()), deaf()).await? {
                Ok(mut session) => {
                    session.prepared = self.prepare(&session).await?;
                    if !session.prepared {
                        self.give_up_preparing();
                    }
                    return Ok(session);
                }
                Err(cause) if error::refuses_settings(&cause) => self.give_up_preparing(),
                Err(cause) => return Err(self.explain(&cause)),
            }
        }
        self.bare(deaf()).await
    }

    /// The task that reads has noticed if the server closed the connection: no need to ask.
    async fn recycle(&self, session: &mut Session, _: &Metrics) -> RecycleResult<Self::Error> {
        if !self.is_usable(session) {
            return Err(RecycleError::message("closed, or not our own any more"));
        }
        Ok(())
    }
}
