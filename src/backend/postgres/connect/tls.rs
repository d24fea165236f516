//! rustls for the driver, with a server name that may differ from the dialled host.

use tokio_postgres::Socket;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::params::Target;
use crate::error::Result;

#[derive(Clone)]
pub(super) struct Connector {
    rustls: MakeRustlsConnect,
    servername: Option<String>,
}

impl Connector {
    /// `None` when no TLS is wanted.
    pub(super) async fn of(target: &Target) -> Result<Option<Self>> {
        let Some(tls) = &target.tls else {
            return Ok(None);
        };
        let config = tls.config().await?;
        Ok(Some(Self {
            rustls: MakeRustlsConnect::new(config.as_ref().clone()),
            servername: target.servername.clone(),
        }))
    }
}

impl MakeTlsConnect<Socket> for Connector {
    type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;
    type TlsConnect = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;
    type Error = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Self::TlsConnect, Self::Error> {
        let name = self.servername.as_deref().unwrap_or(host);
        MakeTlsConnect::<Socket>::make_tls_connect(&mut self.rustls, name)
    }
}
