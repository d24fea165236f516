//! rustls for the driver, with a server name that may differ from the host.

use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::backend::postgres::target::Target;
use crate::error::Result;

#[derive(Clone)]
pub(super) struct Tls {
    rustls: MakeRustlsConnect,
    servername: Option<String>,
}

impl Tls {
    /// None if the target is to be reached without TLS.
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

impl<S> MakeTlsConnect<S> for Tls
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
