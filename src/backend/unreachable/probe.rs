//! Finds out which protocol a port speaks, after a handshake with it has failed. It opens a connection
//! of its own.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::backend::tls::{Tls, TlsOptions};

/// How long the other side may take to answer. Without an answer the protocol stays unknown.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The first byte of a TLS record: an alert or a handshake message.
const RECORD_KINDS: [u8; 2] = [0x15, 0x16];
/// The first byte of a record's version, which all versions of TLS share.
const RECORD_VERSION: u8 = 0x03;

/// Returns whether the other side of a new connection answers a TLS handshake. `host` is the name that
/// was dialled, because some servers answer only to names that they know.
pub async fn speaks_tls<S>(stream: S, host: &str) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some(hello) = client_hello(host).await else {
        return false;
    };
    let Some([kind, version]) = answer(stream, &hello).await else {
        return false;
    };
    RECORD_KINDS.contains(&kind) && version == RECORD_VERSION
}

/// Sends `greeting` and returns the first bytes of the answer. None if none comes in time.
pub async fn answer<const N: usize, S>(mut stream: S, greeting: &[u8]) -> Option<[u8; N]>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let asking = async {
        stream.write_all(greeting).await.ok()?;
        let mut first = [0; N];
        stream.read_exact(&mut first).await.ok()?;
        Some(first)
    };
    timeout(PROBE_TIMEOUT, asking).await.ok()?
}

async fn client_hello(host: &str) -> Option<Vec<u8>> {
    // Nothing is verified, because nothing is sent after the greeting.
    let options = TlsOptions {
        reject_unauthorized: Some(false),
        ..TlsOptions::default()
    };
    let tls = Tls::new(options).ok()?;
    let name = tls
        .server_name(host)
        .unwrap_or(ServerName::IpAddress(Ipv4Addr::LOCALHOST.into()));
    let config = tls.config().await.ok()?;
    let mut connection = ClientConnection::new(Arc::clone(&config), name).ok()?;
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).ok()?;
    Some(hello)
}
