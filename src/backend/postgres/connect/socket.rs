//! A socket to the server, as the driver makes its own.

use std::cmp::max;
use std::io;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio_postgres::config::{Config, Host, TargetSessionAttrs};

/// Whether there is one server only, so that every connection leads to the same.
pub(super) fn is_of_one_server(config: &Config) -> bool {
    max(config.get_hosts().len(), config.get_hostaddrs().len()) == 1
        && config.get_target_session_attrs() == TargetSessionAttrs::Any
}

/// The name that its certificate must have.
pub(super) fn host(config: &Config) -> &str {
    match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host,
        _ => "",
    }
}

/// To the first server.
pub(super) async fn dial(config: &Config) -> io::Result<TcpStream> {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let stream = match (config.get_hostaddrs().first(), config.get_hosts().first()) {
        (Some(address), _) => TcpStream::connect((*address, port)).await?,
        (None, Some(Host::Tcp(host))) => TcpStream::connect((host.as_str(), port)).await?,
        #[cfg(unix)]
        (None, Some(Host::Unix(folder))) => {
            return dial_unix(&folder.join(format!(".s.PGSQL.{port}"))).await;
        }
        _ => return Err(io::ErrorKind::AddrNotAvailable.into()),
    };
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    #[cfg(target_os = "linux")]
    if let Some(timeout) = config.get_tcp_user_timeout() {
        socket.set_tcp_user_timeout(Some(*timeout))?;
    }
    if config.get_keepalives() {
        socket.set_tcp_keepalive(&keepalive(config))?;
    }
    Ok(stream)
}

fn keepalive(config: &Config) -> TcpKeepalive {
    let mut keepalive = TcpKeepalive::new().with_time(config.get_keepalives_idle());
    if let Some(interval) = config.get_keepalives_interval() {
        keepalive = keepalive.with_interval(interval);
    }
    #[cfg(not(windows))]
    if let Some(retries) = config.get_keepalives_retries() {
        keepalive = keepalive.with_retries(retries);
    }
    keepalive
}

/// Only what stream sockets of all families can do is asked of it.
#[cfg(unix)]
async fn dial_unix(path: &std::path::Path) -> io::Result<TcpStream> {
    let stream = tokio::net::UnixStream::connect(path).await?.into_std()?;
    TcpStream::from_std(std::os::fd::OwnedFd::from(stream).into())
}
