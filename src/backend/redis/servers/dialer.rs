//! Connects to a server: the socket, TLS, the greeting, and why it failed.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::server::{Pool, Server};
use crate::backend::Warnings;
use crate::backend::credentials::CredentialsProvider;
use crate::backend::redis::config::{Login, Node};
use crate::backend::redis::connection::{Connection, Settings};
use crate::backend::redis::error;
use crate::backend::tls::Tls;
use crate::backend::unreachable::{Reason, probe};
use crate::error::{Error, ErrorCode, Result};
use crate::net::event_loop::EventLoop;
use crate::net::socket::{Socket, Stream};

/// After this time in a TLS handshake, the dialer checks whether the server speaks TLS at all.
const SLOW_HANDSHAKE: Duration = Duration::from_secs(1);

/// How to connect to a server of the deployment.
#[derive(Clone)]
pub(crate) struct Dialer {
    pub(crate) login: Login,
    pub(crate) tls: Option<Tls>,
    pub(crate) family: Option<u8>,
    /// The limit of the time in which a server must be found and connected.
    pub(crate) connect_timeout: Duration,
    pub(crate) operation_timeout: Duration,
    /// Serves the second connection to a [`Server`], for requests of JavaScript.
    pub(crate) event_loop: Option<Arc<dyn EventLoop>>,
    /// Whether the server shall report changes of the keys that a connection reads.
    pub(crate) tracks: bool,
    /// Whether requests may share a script.
    pub(crate) shares_scripts: bool,
    /// The connected servers of all shards.
    pub(crate) pool: Arc<Pool>,
    pub(crate) warnings: Warnings,
    /// Whether the user was warned of a needless password. Once is enough.
    pub(crate) warned: Arc<AtomicBool>,
    /// The server that is being dialled, and the stage of that.
    pub(crate) dialling: Arc<Mutex<Option<(Node, Stage)>>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Stage {
    Connecting,
    TlsHandshake,
    Greeting,
    /// The server hung up on the greeting, and the dialer looks for the reason.
    HungUp,
}

impl Dialer {
    /// Returns a dialer with the same settings for another purpose. It reports separately what it dials.
    pub(crate) fn for_another(&self) -> Self {
        Self {
            dialling: Arc::default(),
            ..self.clone()
        }
    }

    /// Returns a dialer for connections on which servers report changes. Nothing else uses these.
    pub(crate) fn for_tracking(&self) -> Self {
        Self {
            tracks: true,
            event_loop: None,
            pool: Arc::default(),
            ..self.for_another()
        }
    }

    /// Connects, and returns when the server has answered the greeting. The caller limits the time for
    /// reaching the server. This limits the time for which a server that was reached may be silent.
    pub(crate) async fn dial(&self, node: &Node) -> Result<Connection> {
        self.dial_on(node, None).await
    }

    /// Like `dial`, for a connection that the event loop serves, if there is one.
    pub(crate) async fn dial_on(
        &self,
        node: &Node,
        event_loop: Option<Arc<dyn EventLoop>>,
    ) -> Result<Connection> {
        let error = match self.connect(node, event_loop).await {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        // A server that speaks TLS hangs up on anything else, or answers with an alert.
        let was_not_understood = error.outcome_unknown && error.code != ErrorCode::NetworkTimeout;
        if was_not_understood && self.tls.is_none() {
            self.enter(node, Stage::HungUp);
            if self.is_tls_port(node).await {
                return Err(Error {
                    cause: error.cause,
                    ..error::cannot_connect(node, false, Reason::SpeaksTls)
                });
            }
        }
        Err(error::while_greeting(node, self.tls.is_some(), error))
    }

    /// Like `dial`, but shares the connections with all shards that are on this server.
    pub(super) async fn reach(&self, node: &Node) -> Result<Arc<Server>> {
        // Another shard may be dialling the server already.
        self.enter(node, Stage::Connecting);
        self.pool.get(self, node).await
    }

    /// Explains why dialling takes so long. None if nothing is being dialled.
    pub(crate) fn obstacle(&self) -> Option<Error> {
        let (node, stage) = &self.dialling.lock().clone()?;
        let (tls, reason) = match stage {
            Stage::Connecting => (false, Reason::TimedOut),
            Stage::TlsHandshake => (true, Reason::Silent),
            Stage::Greeting => (false, Reason::Silent),
            Stage::HungUp => (false, Reason::Closed),
        };
        Some(error::cannot_connect(node, tls, reason).cause("timed out"))
    }

    /// If several servers can tell the way, a dead one must leave time for the others.
    pub(super) fn time_for_a_candidate(&self) -> Duration {
        self.connect_timeout / 3
    }

    pub(crate) fn timed_out(&self) -> Error {
        let provider = self.login.provider.as_ref();
        provider
            .and_then(CredentialsProvider::timed_out)
            .or_else(|| self.obstacle())
            .unwrap_or_else(error::silent)
    }

    fn enter(&self, node: &Node, stage: Stage) {
        *self.dialling.lock() = Some((node.clone(), stage));
    }

    async fn connect(
        &self,
        node: &Node,
        event_loop: Option<Arc<dyn EventLoop>>,
    ) -> Result<Connection> {
        self.enter(node, Stage::Connecting);
        let unreachable = |cause| error::unreachable(node, false, &cause);
        let (stream, tls) = match node {
            Node::Tcp { host, port } => {
                let stream = self.connect_tcp(node, host, *port).await?;
                match &self.tls {
                    None => (Stream::Tcp(stream), None),
                    Some(tls) => {
                        self.enter(node, Stage::TlsHandshake);
                        let stream = self.connect_tls(tls, node, host, stream).await?;
                        let (stream, tls) = stream.into_inner();
                        (Stream::Tcp(stream), Some(Box::new(tls)))
                    }
                }
            }
            #[cfg(unix)]
            Node::Unix { path } => {
                let stream = tokio::net::UnixStream::connect(path).await;
                (Stream::Unix(stream.map_err(unreachable)?), None)
            }
            #[cfg(not(unix))]
            Node::Unix { .. } => {
                let message = "Unix sockets are not available on this system";
                return Err(Error::invalid_argument(message));
            }
        };
        let stream = match event_loop {
            Some(_) => stream.for_event_loop().map_err(unreachable)?,
            None => stream,
        };
        self.enter(node, Stage::Greeting);
        let settings = Settings {
            limit: self.operation_timeout,
            shares_scripts: self.shares_scripts,
            gets_pushes: self.tracks,
        };
        let connection = Connection::open(node, Socket::new(stream, tls), event_loop, settings);
        self.greet(&connection).await?;
        Ok(connection)
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
        let handshake = timeout(self.operation_timeout, connector.connect(name, stream));
        let without_tls = self.until_it_answers_without_tls(node);
        let done = tokio::select! {
            biased;
            done = handshake => done,
            () = without_tls => {
                return Err(error::cannot_connect(node, true, Reason::SpeaksNoTls));
            }
        };
        done.map_err(|_| error::cannot_connect(node, true, Reason::Silent))?
            .map_err(|cause| error::unreachable(node, true, &cause))
    }

    async fn connect_tcp(&self, node: &Node, host: &str, port: u16) -> Result<TcpStream> {
        let unreachable = |cause| error::unreachable(node, false, &cause);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = tokio::net::lookup_host((host, port))
            .await
            .map_err(|cause| {
                error::cannot_connect(node, false, Reason::HostNotFound).cause(cause)
            })?;
        let is_wanted = |address: &SocketAddr| match self.family {
            Some(4) => address.is_ipv4(),
            Some(6) => address.is_ipv6(),
            _ => true,
        };
        let addresses: Vec<SocketAddr> = addresses.filter(is_wanted).collect();
        if addresses.is_empty() {
            return Err(unreachable(io::ErrorKind::AddrNotAvailable.into()));
        }
        let stream = TcpStream::connect(&*addresses).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        Ok(stream)
    }

    /// Returns whether a server that did not understand the greeting speaks TLS.
    async fn is_tls_port(&self, node: &Node) -> bool {
        let Node::Tcp { host, port } = node else {
            return false;
        };
        match self.connect_tcp(node, host, *port).await {
            Ok(stream) => probe::speaks_tls(stream, host).await,
            Err(_) => false,
        }
    }

    /// Returns only if the server speaks the Redis protocol without TLS. Such a server does not answer
    /// a TLS handshake, because it takes the handshake for the beginning of a long line.
    async fn until_it_answers_without_tls(&self, node: &Node) {
        sleep(SLOW_HANDSHAKE.min(self.operation_timeout / 3)).await;
        if let Node::Tcp { host, port } = node
            && let Ok(stream) = self.connect_tcp(node, host, *port).await
            && let Some([b'+' | b'-']) = probe::answer(stream, b"PING\r\n").await
        {
            return;
        }
        pending().await
    }
}
