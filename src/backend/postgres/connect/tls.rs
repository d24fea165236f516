//! rustls for the driver, with a server name that may differ from the dialled host.

use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::params::Target;
use crate::error::{Error, Result};

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

    pub(super) fn for_host<S>(
        mut self,
        host: &str,
    ) -> Result<<Self as MakeTlsConnect<S>>::TlsConnect>
    where
        Self: MakeTlsConnect<S>,
    {
        self.make_tls_connect(host).map_err(|cause| {
            Error::invalid_argument("The host's name does not go with TLS").cause(cause.into())
        })
    }
}

impl<S> MakeTlsConnect<S> for Connector
where
    MakeRustlsConnect: MakeTlsConnect<S>,
{
    type Stream = <MakeRustlsConnect as MakeTlsConnect<S>>::Stream;
    type TlsConnect = <MakeRustlsConnect as MakeTlsConnect<S>>::TlsConnect;
    type Error = <MakeRustlsConnect as MakeTlsConnect<S>>::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Self::TlsConnect, Self::Error> {
        let name = self.servername.as_deref().unwrap_or(host);
        MakeTlsConnect::<S>::make_tls_connect(&mut self.rustls, name)
    }
}
