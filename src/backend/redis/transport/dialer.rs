//! How a connection is made.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::lent::lend;
use super::pool::Pool;
use crate::backend::Warnings;
use crate::backend::redis::config::{Login, Node};
use crate::backend::redis::error;
use crate::backend::redis::lane::Lane;
use crate::backend::redis::lane::wire::Wire;
use crate::backend::tls::Tls;
use crate::error::{Error, ErrorCode, Result};
use crate::event_loop::EventLoop;

/// How to connect to a server of the deployment.
#[derive(Clone)]
pub(crate) struct Dialer {
    pub(crate) login: Login,
    pub(crate) tls: Option<Tls>,
    pub(crate) family: Option<u8>,
    pub(crate) operation_timeout: Duration,
    /// Whether servers are to push what happens to the keys that are read.
    pub(crate) tracks: bool,
    /// Connections that are shared.
    pub(crate) pool: Arc<Pool>,
    pub(crate) warnings: Warnings,
    /// Once is enough.
    pub(crate) warned: Arc<AtomicBool>,
    /// The server that is being dialled, and whether it was reached and only its answer is missing.
    pub(crate) dialling: Arc<Mutex<Option<(Node, bool)>>>,
}

impl Dialer {
    /// Returns when the server has answered something. The caller bounds the time for reaching it;
    /// a server that was reached but is silent is found out here.
    pub(crate) async fn dial(&self, node: &Node) -> Result<Connection> {
        self.connect(node)
            .await
            .map_err(|error| error::while_greeting(node, error))
    }

    /// The same, shared with all who reach for this server.
    pub(crate) async fn reach(&self, node: &Node) -> Result<Arc<Connection>> {
        // Perhaps it is another who dials it.
        *self.dialling() = Some((node.clone(), false));
        self.pool.get(self, node).await
    }

    /// The servers that are shared just now.
    pub(crate) fn connected(&self) -> Vec<Node> {
        self.pool.connected()
    }

    /// What it means that dialling took too long.
    pub(crate) fn timed_out(&self) -> Error {
        match &*self.dialling() {
            Some((node, false)) => error::unreachable(node, "timed out"),
            Some((node, true)) => error::while_greeting(node, error::silent()),
            None => error::silent(),
        }
    }

    fn dialling(&self) -> MutexGuard<'_, Option<(Node, bool)>> {
        self.dialling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self, node: &Node) -> Result<Connection> {
        *self.dialling() = Some((node.clone(), false));
        #[cfg(unix)]
        let unreachable = |cause| error::unreachable(node, cause);
        match node {
            Node::Tcp { host, port } => {
                let stream = self.connect_tcp(node, host, *port).await?;
                *self.dialling() = Some((node.clone(), true));
                match &self.tls {
                    None => self.open(node, stream).await,
                    Some(tls) => {
                        let stream = self.connect_tls(tls, node, host, stream).await?;
                        self.open(node, stream).await
                    }
                }
            }
            #[cfg(unix)]
            Node::Unix { path } => {
                let stream = tokio::net::UnixStream::connect(path)
                    .await
                    .map_err(unreachable)?;
                *self.dialling() = Some((node.clone(), true));
                self.open(node, stream).await
            }
            #[cfg(not(unix))]
            Node::Unix { .. } => Err(no_unix_sockets()),
        }
    }

    async fn open<S>(&self, node: &Node, stream: S) -> Result<Connection>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limit = self.operation_timeout;
        if !self.tracks {
            let connection = Connection::open(node, stream, limit, false).await?;
            self.greet(&connection).await?;
            return Ok(connection);
        }
        // Then again by the driver, which would hide why it fails.
        let stream = self.greeted(node, stream).await?;
        timeout(limit, Connection::open(node, stream, limit, true))
            .await
            .map_err(|_| error::silent())?
    }

    /// A connection of its own for the event loop.
    pub(crate) async fn dial_lane(
        &self,
        node: &Node,
        home: Arc<dyn EventLoop>,
        link_over: CancellationToken,
        joins: bool,
    ) -> Result<Arc<Lane>> {
        let unreachable = |cause| error::unreachable(node, cause);
        let wire = match node {
            Node::Tcp { host, port } => {
                let stream = self.connect_tcp(node, host, *port).await?;
                let (stream, tls) = match &self.tls {
                    None => (self.greeted(node, stream).await?, None),
                    Some(tls) => {
                        let stream = self.connect_tls(tls, node, host, stream).await?;
                        let (stream, mut tls) = self.greeted(node, stream).await?.into_inner();
                        // What is in flight has a limit already.
                        tls.set_buffer_limit(None);
                        (stream, Some(Box::new(tls)))
                    }
                };
                Wire::new(stream.into_std().map_err(unreachable)?, tls)
            }
            #[cfg(unix)]
            Node::Unix { path } => {
                let stream = tokio::net::UnixStream::connect(path)
                    .await
                    .map_err(unreachable)?;
                let stream = self.greeted(node, stream).await?;
                let socket = stream.into_std().map_err(unreachable)?;
                Wire::new(std::os::fd::OwnedFd::from(socket).into(), None)
            }
            #[cfg(not(unix))]
            Node::Unix { .. } => return Err(no_unix_sockets()),
        };
        let limit = self.operation_timeout;
        Ok(Lane::open(wire, home, limit, link_over, joins))
    }

    /// Greets the server as for any other connection, and takes the stream back from the driver.
    async fn greeted<S>(&self, node: &Node, stream: S) -> Result<S>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (lent, owner) = lend(stream);
        let connection = Connection::open(node, lent, self.operation_timeout, false).await?;
        self.greet(&connection).await?;
        connection.let_go();
        owner.take().ok_or_else(error::lost)
    }

    async fn connect_tls(
        &self,
        tls: &Tls,
        node: &Node,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>> {
        let connector = TlsConnector::from(tls.config().await?);
        let name = tls.server_name(host)?;
        timeout(self.operation_timeout, connector.connect(name, stream))
            .await
            .map_err(|_| error::silent())?
            .map_err(|cause| {
                error::from_tls(&cause).unwrap_or_else(|| error::unreachable(node, cause))
            })
    }

    async fn connect_tcp(&self, node: &Node, host: &str, port: u16) -> Result<TcpStream> {
        let unreachable = |cause| error::unreachable(node, cause);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = tokio::net::lookup_host((host, port))
            .await
            .map_err(unreachable)?;
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
                    stream.set_nodelay(true).map_err(unreachable)?;
                    return Ok(stream);
                }
                Err(cause) => failure = cause,
            }
        }
        Err(unreachable(failure))
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
            match connection.ask(&auth).await? {
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
            connection
                .ask(redis::cmd("CLIENT").arg("SETNAME").arg(name))
                .await?;
        }
        let last = match db {
            0 => redis::cmd("PING"),
            db => redis::cmd("SELECT").arg(*db).clone(),
        };
        match connection.ask(&last).await? {
            // Only scripts need to be allowed.
            Value::ServerError(error) if error.code() == "NOPERM" && *db == 0 => {}
            Value::ServerError(error) => return Err(error::from_server(&error)),
            _ => {}
        }
        if self.tracks {
            track(connection).await?;
        }
        Ok(())
    }

    fn warn_of_needless_password(&self) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            self.warnings
                .warn("The Redis server does not require a password, but one was given");
        }
    }
}

/// Makes the server push what happens to the keys that are read over this connection.
async fn track(connection: &Connection) -> Result<()> {
    let mut tracking = redis::cmd("CLIENT");
    tracking.arg("TRACKING").arg("ON");
    for command in [redis::cmd("HELLO").arg(3), &mut tracking] {
        if let Value::ServerError(error) = connection.ask(command).await? {
            return Err(error::from_server(&error));
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn no_unix_sockets() -> Error {
    Error::invalid_argument("Unix sockets are not available on this system")
}
