//! Opens connections: what their sessions are like, how long to try while the server is away, and what
//! the error says after that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};

use super::tls::RustlsConnector;
use crate::backend::Warnings;
use crate::backend::backoff::{is_away, keep_trying};
use crate::backend::credentials::{Credentials, CredentialsProvider};
use crate::backend::postgres::config::Checked;
use crate::backend::postgres::connection::{
    Connection, DriverResult, NotificationHandler, ignore_notifications,
};
use crate::backend::postgres::error;
use crate::backend::postgres::sql::{self, Call, LOCK_TIMEOUT_MS, Session, Statements};
use crate::backend::postgres::target::Target;
use crate::backend::unreachable::{Peer, Reason, gave_up_after, trying_for};
use crate::error::{Error, ErrorCode, Result};

/// Opens the connections of a backend.
///
/// A connection normally has a server session of its own, in which we set parameters and prepare
/// statements. A pooler may run each transaction in another session. Both would then be lost, or
/// be left to strangers. So we pass the parameters when connecting. Such a pooler refuses or ignores them,
/// which shows that it is there. From then on every message contains all it needs.
pub(crate) struct Dialer {
    pub target: Target,
    pub statements: Statements,
    /// How long a request waits for a server that is away.
    pub connect_timeout: Duration,
    /// None if the password is known.
    credentials: Option<CredentialsProvider>,
    statement_timeout: Duration,
    /// Cleared once a pooler has been noticed.
    prepare: AtomicBool,
    /// Why the last attempt to connect failed, and when the request that made it began to try. None if
    /// it succeeded.
    last_failure: Mutex<Option<(Error, Instant)>>,
    warnings: Warnings,
    has_warned: AtomicBool,
}

impl Dialer {
    pub(super) fn new(config: Checked, statement_timeout: Duration, warnings: Warnings) -> Self {
        let mut target = config.target;
        target.limit_each_host(config.connect_timeout);
        Self {
            target,
            statements: Statements::new(&config.tables, config.labelled),
            connect_timeout: config.connect_timeout,
            credentials: config.credentials,
            statement_timeout,
            prepare: AtomicBool::new(config.prepare),
            last_failure: Mutex::default(),
            warnings,
            has_warned: AtomicBool::new(false),
        }
    }

    /// Writes a message that runs `call` in this session. The server gives up by itself after
    /// `time_left`: a request to cancel can come too early or too late, or hit another operation.
    pub(super) fn write(&self, session: Session, call: Call<'_>, time_left: Duration) -> String {
        // The session's own setting is near enough, unless the wait for the connection was long.
        let needs_timeout = time_left < self.statement_timeout.mul_f32(0.9);
        sql::message(call, session, milliseconds(time_left), needs_timeout)
    }

    /// From now on every message contains all it needs.
    pub(super) fn stop_preparing(&self) {
        self.prepare.store(false, Ordering::Relaxed);
    }

    fn prepares(&self) -> bool {
        self.prepare.load(Ordering::Relaxed)
    }

    /// Whether an idle connection can be used. There is no need to ask the server: the driver notices
    /// when it closes the connection.
    pub(super) fn is_usable(&self, connection: &Connection) -> bool {
        !connection.is_closed() && connection.session.is_prepared == self.prepares()
    }

    /// Returns why there is no connection at the moment. None if the last attempt succeeded.
    pub(super) fn last_failure(&self) -> Option<Error> {
        let (error, since) = self.last_failure.lock().clone()?;
        Some(trying_for(error, since.elapsed()))
    }

    /// Returns the same for a request that gives up after it has waited since `started`.
    pub(super) fn last_failure_on_giving_up(&self, started: Instant) -> Option<Error> {
        let (error, _) = self.last_failure.lock().clone()?;
        Some(giving_up(error, started))
    }

    /// Opens a connection for the pool, for a request that has waited since `started`. It tries for
    /// `connectTimeoutMs`, counted from `started` if the server is already known to be away.
    pub(super) async fn connect(&self, started: Instant) -> Result<Connection> {
        let mut since = Instant::now();
        if let Some(error) = self.last_failure_on_giving_up(started) {
            if started.elapsed() >= self.connect_timeout {
                return Err(error);
            }
            since = started;
        }
        let note = |result: &Result<Connection>| {
            let failure = result.as_ref().err().map(|error| (error.clone(), since));
            *self.last_failure.lock() = failure;
        };
        let attempt = || async {
            let opened = self.open().await;
            note(&opened);
            opened
        };
        let time_left = (since + self.connect_timeout).saturating_duration_since(Instant::now());
        let result = keep_trying(time_left, attempt, || self.timed_out()).await;
        note(&result);
        result.map_err(|error| {
            // Other errors are reported at once and stay as they are.
            let timed_out = error.code == ErrorCode::NetworkTimeout && error.details.is_empty();
            match is_away(&error) || timed_out {
                true => giving_up(error, since),
                false => error,
            }
        })
    }

    /// Opens a connection without settings and prepared statements.
    pub(super) async fn open_listener(
        &self,
        on_notification: NotificationHandler,
    ) -> Result<Connection> {
        let dialled = timeout(self.connect_timeout, self.dial(None, on_notification)).await;
        dialled
            .unwrap_or_else(|_| Err(self.timed_out()))?
            .map_err(|cause| error::while_connecting(&cause, &self.peer()))
    }

    /// Makes one attempt to open a connection for the pool.
    async fn open(&self) -> Result<Connection> {
        let settings = self.prepares().then(|| self.settings());
        let dialled = self.dial(settings.as_deref(), ignore_notifications());
        let dialled = match dialled.await? {
            Err(cause) if settings.is_some() && error::refuses_settings(&cause) => {
                self.stop_preparing();
                self.dial(None, ignore_notifications()).await?
            }
            dialled => dialled,
        };
        let mut connection =
            dialled.map_err(|cause| error::while_connecting(&cause, &self.peer()))?;
        let answer = connection.query(self.statements.ask_session()).await?;
        let column = |index| answer.first().and_then(|row| row.try_get(index).ok()?);
        connection.session.may_notify = column(1) == Some("t");
        connection.session.has_holders = column(2) == Some("t");
        if !connection.session.may_notify && !self.has_warned.swap(true, Ordering::Relaxed) {
            self.warnings.debug(
                "The PostgreSQL role may not execute pg_notify: waiters are not notified when a lock is \
                 released, and poll instead",
            );
        }
        if self.prepares() {
            match column(0) == Some("own") {
                true => self.prepare_statements(&mut connection).await?,
                false => self.stop_preparing(),
            }
        }
        Ok(connection)
    }

    async fn prepare_statements(&self, connection: &mut Connection) -> Result<()> {
        let prepare = self.statements.prepare(connection.session);
        match connection.run(&prepare).await {
            Ok(_) => connection.session.is_prepared = true,
            Err(cause) if error::session_is_shared(&cause) => self.stop_preparing(),
            // The tables do not exist, for example. The connection is used for one request, whose
            // error says so, or which creates them.
            Err(cause) if error::keeps_connection(&cause) => {}
            Err(cause) => return Err(error::from_driver(&cause, &self.target.server)),
        }
        Ok(())
    }

    /// Returns the error of a connection that took too long to open.
    fn timed_out(&self) -> Error {
        let password_is_late = self
            .credentials
            .as_ref()
            .and_then(CredentialsProvider::timed_out);
        password_is_late.unwrap_or_else(|| self.peer().error(Reason::Silent))
    }

    fn peer(&self) -> Peer<'_> {
        Peer {
            name: &self.target.server,
            tls: self.target.config.get_ssl_mode() == SslMode::Require,
            settings: &error::SETTINGS,
        }
    }

    /// The inner result is the driver's, for the caller to look at.
    async fn dial(
        &self,
        settings: Option<&str>,
        on_notification: NotificationHandler,
    ) -> Result<DriverResult<Connection>> {
        let config = self.driver_config(settings).await?;
        let server = &self.target.server;
        Ok(match &self.target.tls {
            Some(tls) => {
                let tls = RustlsConnector::new(tls).await?;
                Connection::open(&config, tls, server, on_notification).await
            }
            None => Connection::open(&config, NoTls, server, on_notification).await,
        })
    }

    async fn driver_config(&self, settings: Option<&str>) -> Result<Config> {
        let mut config = self.target.config.clone();
        if let Some(provider) = &self.credentials {
            let Credentials { username, password } = provider.ask().await?;
            if let Some(username) = username {
                config.user(username);
            }
            if let Some(password) = password {
                config.password(password);
            }
        }
        if let Some(settings) = settings {
            let options = match config.get_options() {
                Some(given) => format!("{given} {settings}"),
                None => settings.to_owned(),
            };
            config.options(options);
        }
        Ok(config)
    }

    /// - `statement_timeout`: the server gives up before we do, and says so for certain.
    /// - `lock_timeout`: a request that waits for a database lock of another session lets others use
    ///   its connection in between.
    /// - Isolation: see the SQL files. In a stricter one, waiting for a lock ends in 40001.
    /// - Planning: a plan made while the tables were small would scan them; a plan for each call
    ///   costs more than the call; compiling to machine code costs far more.
    fn settings(&self) -> String {
        format!(
            "-c syncguard.session=own -c statement_timeout={} \
             -c lock_timeout={LOCK_TIMEOUT_MS} \
             -c default_transaction_isolation=read\\ committed \
             -c enable_seqscan=off -c plan_cache_mode=force_generic_plan -c jit=off",
            milliseconds(self.statement_timeout)
        )
    }
}

/// Adds how long we tried.
fn giving_up(error: Error, started: Instant) -> Error {
    gave_up_after(error, started.elapsed(), Some("connectTimeoutMs"))
}

/// At least one, because zero would mean without a limit.
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis())
        .unwrap_or(u64::MAX)
        .max(1)
}
