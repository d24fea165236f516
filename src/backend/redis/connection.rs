//! One connection: how it is made, and requests over it.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::poll_fn;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use super::config::{Login, Node};
use super::driver::Driver;
use super::error;
use super::lane::{Lane, LaneSlot};
use super::lent::lend;
use super::watchdog::Watchdog;
use super::wire::Wire;
use crate::backend::Warnings;
use crate::backend::tls::Tls;
use crate::error::{Error, ErrorCode, Result};
use crate::event_loop::EventLoop;

/// Requests that may wait to be written. More than that wait for their turn.
const QUEUE: usize = 1 << 16;

/// How to connect to a server of the deployment.
#[derive(Clone)]
pub struct Dialer {
    pub login: Login,
    pub tls: Option<Tls>,
    pub family: Option<u8>,
    pub operation_timeout: Duration,
    pub warnings: Warnings,
    /// Once is enough.
    pub warned: Arc<AtomicBool>,
    /// Whether the server that is being dialled has been reached, and only its answer is missing.
    pub reached: Arc<AtomicBool>,
}

pub struct Connection {
    node: Node,
    multiplexed: MultiplexedConnection,
    driver: Arc<Driver>,
    watchdog: Arc<Watchdog>,
    /// From time to time while anybody waits.
    tick: Arc<Notify>,
    /// The same server's, for requests of the event loop.
    lane: Arc<LaneSlot>,
    /// Cancelled when the connection is over, and to end it.
    over: CancellationToken,
    opened: Instant,
    answered_after_ms: AtomicU64,
    gone_silent: AtomicBool,
}

impl Dialer {
    /// Returns when the server has answered something. The caller bounds the time for reaching it;
    /// a server that was reached but is silent is found out here.
    pub async fn dial(&self, node: &Node) -> Result<Connection> {
        self.connect(node).await.map_err(|error| Error {
            // Greetings change nothing.
            outcome_unknown: false,
            ..error
        })
    }

    async fn connect(&self, node: &Node) -> Result<Connection> {
        self.reached.store(false, Ordering::Relaxed);
        let connection = match node {
            Node::Tcp { host, port } => {
                let stream = self.connect_tcp(host, *port).await?;
                self.reached.store(true, Ordering::Relaxed);
                match &self.tls {
                    None => self.start(node, stream).await?,
                    Some(tls) => {
                        let stream = self.connect_tls(tls, host, stream).await?;
                        self.start(node, stream).await?
                    }
                }
            }
            #[cfg(unix)]
            Node::Unix { path } => {
                let stream = tokio::net::UnixStream::connect(path)
                    .await
                    .map_err(error::unreachable)?;
                self.reached.store(true, Ordering::Relaxed);
                self.start(node, stream).await?
            }
            #[cfg(not(unix))]
            Node::Unix { .. } => return Err(no_unix_sockets()),
        };
        self.greet(&connection).await?;
        Ok(connection)
    }

    /// A connection of its own for the event loop.
    pub async fn dial_lane(&self, node: &Node, home: Arc<dyn EventLoop>) -> Result<Arc<Lane>> {
        let wire = match node {
            Node::Tcp { host, port } => {
                let stream = self.connect_tcp(host, *port).await?;
                let (stream, tls) = match &self.tls {
                    None => (self.greeted(node, stream).await?, None),
                    Some(tls) => {
                        let stream = self.connect_tls(tls, host, stream).await?;
                        let (stream, mut tls) = self.greeted(node, stream).await?.into_inner();
                        // What is in flight has a limit already.
                        tls.set_buffer_limit(None);
                        (stream, Some(Box::new(tls)))
                    }
                };
                let socket = stream.into_std().map_err(error::unreachable)?;
                Wire {
                    socket: Arc::new(socket),
                    tls,
                }
            }
            #[cfg(unix)]
            Node::Unix { path } => {
                let stream = tokio::net::UnixStream::connect(path)
                    .await
                    .map_err(error::unreachable)?;
                let stream = self.greeted(node, stream).await?;
                let socket = stream.into_std().map_err(error::unreachable)?;
                Wire {
                    socket: Arc::new(std::os::fd::OwnedFd::from(socket).into()),
                    tls: None,
                }
            }
            #[cfg(not(unix))]
            Node::Unix { .. } => return Err(no_unix_sockets()),
        };
        Ok(Lane::open(wire, home, self.operation_timeout))
    }

    /// Greets the server as for any other connection, and takes the stream back from the driver.
    async fn greeted<S>(&self, node: &Node, stream: S) -> Result<S>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (lent, owner) = lend(stream);
        let connection = self.start(node, lent).await?;
        self.greet(&connection).await?;
        connection.driver.end();
        owner.take().ok_or_else(error::lost)
    }

    async fn connect_tls(
        &self,
        tls: &Tls,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>> {
        let connector = TlsConnector::from(tls.config().await?);
        let name = tls.server_name(host)?;
        timeout(self.operation_timeout, connector.connect(name, stream))
            .await
            .map_err(|_| error::silent())?
            .map_err(|cause| error::from_tls(&cause))
    }

    async fn connect_tcp(&self, host: &str, port: u16) -> Result<TcpStream> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = tokio::net::lookup_host((host, port))
            .await
            .map_err(error::unreachable)?;
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            let wanted = match self.family {
                Some(4) => address.is_ipv4(),
                Some(6) => address.is_ipv6(),
                _ => true,
            };
            if !wanted {
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(error::unreachable)?;
                    return Ok(stream);
                }
                Err(cause) => failure = cause,
            }
        }
        Err(error::unreachable(failure))
    }

    async fn start<S>(&self, node: &Node, stream: S) -> Result<Connection>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Timeouts and the greeting are ours: the driver's own greeting hides why it failed.
        let no_greeting = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let (multiplexed, driver) =
            MultiplexedConnection::new_with_config(&no_greeting, stream, config)
                .await
                .map_err(|cause| error::from_connection(&cause))?;
        let driver = Driver::new(driver);
        let watchdog = Arc::new(Watchdog::default());
        let tick = Arc::new(Notify::new());
        let over = CancellationToken::new();
        tokio::spawn({
            let (driver, over) = (Arc::clone(&driver), over.clone());
            async move {
                driver.run().await;
                over.cancel();
            }
        });
        tokio::spawn({
            let (driver, watchdog, over) =
                (Arc::clone(&driver), Arc::clone(&watchdog), over.clone());
            let tick = Arc::clone(&tick);
            let limit = self.operation_timeout;
            async move {
                let ticking = watchdog.run(limit, || tick.notify_waiters());
                over.run_until_cancelled(ticking).await;
                driver.end();
            }
        });
        Ok(Connection {
            node: node.clone(),
            multiplexed,
            driver,
            watchdog,
            tick,
            lane: Arc::default(),
            over,
            opened: Instant::now(),
            answered_after_ms: AtomicU64::new(0),
            gone_silent: AtomicBool::new(false),
        })
    }

    async fn greet(&self, connection: &Connection) -> Result<()> {
        let Login {
            username,
            password,
            db,
            client_name,
        } = &self.login;
        let username = username.as_deref().filter(|name| !name.is_empty());
        let password = password.as_deref().unwrap_or_default();
        if username.is_some() || !password.is_empty() {
            let mut auth = redis::cmd("AUTH");
            if let Some(username) = username {
                auth.arg(username);
            }
            auth.arg(password);
            match self.ask(connection, &auth).await? {
                Value::ServerError(error) if error::no_password_needed(&error) => {
                    self.warn_of_needless_password();
                }
                Value::ServerError(refused) => {
                    let error = error::from_server(&refused);
                    return Err(match error.code {
                        ErrorCode::Internal => Error {
                            code: ErrorCode::AuthFailed,
                            ..error
                        },
                        _ => error,
                    });
                }
                _ => {}
            }
        }
        if let Some(name) = client_name {
            // A name is a convenience: a server that does not take it is as good.
            self.ask(connection, redis::cmd("CLIENT").arg("SETNAME").arg(name))
                .await?;
        }
        let last = match db {
            0 => redis::cmd("PING"),
            db => redis::cmd("SELECT").arg(*db).clone(),
        };
        match self.ask(connection, &last).await? {
            // Only scripts need to be allowed.
            Value::ServerError(error) if error.code() == "NOPERM" && *db == 0 => Ok(()),
            Value::ServerError(error) => Err(error::from_server(&error)),
            _ => Ok(()),
        }
    }

    fn warn_of_needless_password(&self) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            self.warnings
                .warn("The Redis server does not require a password, but one was given");
        }
    }

    pub async fn ask(&self, connection: &Connection, command: &Cmd) -> Result<Value> {
        connection.request(command, self.operation_timeout).await
    }
}

#[cfg(not(unix))]
fn no_unix_sockets() -> Error {
    Error::invalid_argument("Unix sockets are not available on this system")
}

impl Connection {
    /// The server's answer, which may be an error of its own.
    pub async fn request(&self, command: &Cmd, limit: Duration) -> Result<Value> {
        let started = Instant::now();
        let mut fresh = self.watchdog.started();
        let _ended = Ended(&self.watchdog);
        let mut multiplexed = self.multiplexed.clone();
        let mut request = pin!(multiplexed.send_packed_command(command));
        let answer = poll_fn(|context| {
            // With others in flight the I/O thread is awake, and writes for all of them at once.
            if std::mem::take(&mut fresh) {
                self.driver.start(request.as_mut(), context)
            } else {
                request.as_mut().poll(context)
            }
        });
        let answer = tokio::select! {
            biased;
            answer = answer => Some(answer),
            () = self.until_over(started, limit) => None,
        };
        match answer {
            Some(Ok(value)) => {
                self.answered_after_ms
                    .store(self.age_ms(), Ordering::Relaxed);
                Ok(value)
            }
            Some(Err(_)) if self.gone_silent.load(Ordering::Relaxed) => {
                Err(error::silent().outcome_unknown())
            }
            Some(Err(cause)) => Err(error::from_connection(&cause)),
            None => {
                // Slow is not silent: while answers come, the connection is good.
                let quiet_ms = self
                    .age_ms()
                    .saturating_sub(self.answered_after_ms.load(Ordering::Relaxed));
                if Duration::from_millis(quiet_ms + 1) >= limit {
                    self.gone_silent.store(true, Ordering::Relaxed);
                    self.over.cancel();
                }
                Err(error::silent().outcome_unknown())
            }
        }
    }

    pub fn lane(&self) -> Arc<LaneSlot> {
        Arc::clone(&self.lane)
    }

    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Returns some time after `limit` has passed since `started`.
    async fn until_over(&self, started: Instant, limit: Duration) {
        loop {
            self.tick.notified().await;
            if started.elapsed() >= limit {
                return;
            }
        }
    }

    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Cancelled when the connection is over.
    pub fn over(&self) -> CancellationToken {
        self.over.clone()
    }

    pub fn end(&self) {
        self.over.cancel();
    }

    fn age_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

struct Ended<'a>(&'a Watchdog);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// The last user of a connection that was replaced ends it.
impl Drop for Connection {
    fn drop(&mut self) {
        self.over.cancel();
    }
}
