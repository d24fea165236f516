//! Opens one connection, and writes the messages that fit its session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};

use super::tls::Tls;
use crate::backend::credentials::{Credentials, CredentialsProvider};
use crate::backend::postgres::connection::{
    Connection, DriverResult, NotificationHandler, first_of, ignore_notifications,
};
use crate::backend::postgres::error;
use crate::backend::postgres::sql::{self, Call, LOCK_TIMEOUT_MS, Statements};
use crate::backend::postgres::target::Target;
use crate::backend::unreachable::{Peer, Reason};
use crate::error::{Error, Result};

/// Opens the connections of the pool.
///
/// A connection normally has a server session of its own, in which we set parameters and prepare
/// statements. A pooler may run each transaction in another session. Both would then be lost, or
/// be left to strangers. So we pass the parameters when connecting. Such a pooler refuses or ignores them,
/// which shows that it is there. From then on every message contains all it needs.
pub(crate) struct Dialer {
    target: Target,
    statements: Statements,
    /// None if the password is known.
    credentials: Option<CredentialsProvider>,
    statement_timeout: Duration,
    /// Cleared once a pooler has been noticed.
    prepare: AtomicBool,
}

impl Dialer {
    pub(super) fn new(
        target: Target,
        statements: Statements,
        credentials: Option<CredentialsProvider>,
        statement_timeout: Duration,
        prepare: bool,
    ) -> Self {
        Self {
            target,
            statements,
            credentials,
            statement_timeout,
            prepare: AtomicBool::new(prepare),
        }
    }

    pub(super) fn statements(&self) -> &Statements {
        &self.statements
    }

    /// The server's name in messages.
    pub(super) fn server(&self) -> &Arc<str> {
        &self.target.server
    }

    /// Writes a message that runs `call` on this connection. The server gives up by itself after
    /// `time_left`: a request to cancel can come too early or too late, or hit another operation.
    pub(super) fn write(
        &self,
        connection: &Connection,
        call: Call<'_>,
        time_left: Duration,
    ) -> String {
        if !connection.prepared {
            return sql::spelled_out(call, milliseconds(time_left));
        }
        // The session's own setting is near enough, unless the wait for the connection was long.
        let needs_timeout = time_left < self.statement_timeout.mul_f32(0.9);
        sql::prepared(call, milliseconds(time_left), needs_timeout)
    }

    /// From now on every message contains all it needs.
    pub(super) fn stop_preparing(&self) {
        self.prepare.store(false, Ordering::Relaxed);
    }

    /// Makes one attempt to open a connection for the pool.
    pub(super) async fn open(&self) -> Result<Connection> {
        if self.prepare.load(Ordering::Relaxed) {
            let settings = self.settings();
            match self.dial(Some(&settings), ignore_notifications()).await? {
                Ok(mut connection) => {
                    connection.prepared = self.prepare_statements(&connection).await?;
                    if !connection.prepared {
                        self.stop_preparing();
                    }
                    return Ok(connection);
                }
                Err(cause) if error::refuses_settings(&cause) => self.stop_preparing(),
                Err(cause) => return Err(error::while_connecting(&cause, &self.peer())),
            }
        }
        self.open_bare(ignore_notifications()).await
    }

    /// Opens a connection without settings and prepared statements.
    pub(super) async fn open_bare(
        &self,
        on_notification: NotificationHandler,
    ) -> Result<Connection> {
        let dialled = self.dial(None, on_notification).await?;
        dialled.map_err(|cause| error::while_connecting(&cause, &self.peer()))
    }

    /// Returns the error of a connection that took too long to open.
    pub(super) fn timed_out(&self) -> Error {
        let password_is_late = self
            .credentials
            .as_ref()
            .and_then(CredentialsProvider::timed_out);
        password_is_late.unwrap_or_else(|| self.peer().error(Reason::Silent))
    }

    /// Whether an idle connection can be used. There is no need to ask the server: the driver notices
    /// when it closes the connection.
    pub(super) fn is_usable(&self, connection: &Connection) -> bool {
        !connection.is_closed() && (!connection.prepared || self.prepare.load(Ordering::Relaxed))
    }

    fn peer(&self) -> Peer<'_> {
        Peer {
            name: self.server(),
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
        let server = self.server();
        Ok(match Tls::of(&self.target).await? {
            Some(tls) => Connection::open(&config, tls, server, on_notification).await,
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

    /// Returns whether the connection has a session of its own, and then its statements in it.
    async fn prepare_statements(&self, connection: &Connection) -> Result<bool> {
        let setting = "SELECT current_setting('syncguard.session', true)";
        if first_of(&connection.query(setting).await?) != Some("own") {
            return Ok(false);
        }
        match connection.run(&self.statements.prepare_all).await {
            Ok(_) => Ok(true),
            Err(cause) if error::session_is_shared(&cause) => Ok(false),
            Err(cause) => Err(error::from_driver(&cause, self.server())),
        }
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

/// At least one, because zero would mean without a limit.
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis())
        .unwrap_or(u64::MAX)
        .max(1)
}
