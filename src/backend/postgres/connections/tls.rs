//! rustls for the driver, with a server name that may differ from the host.

use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::backend::tls::Tls;
use crate::error::Result;

#[derive(Clone)]
pub(super) struct RustlsConnector {
    tls: Tls,
    rustls: MakeRustlsConnect,
}

impl RustlsConnector {
    pub(super) async fn new(tls: &Tls) -> Result<Self> {
        let config = tls.config().await?;
        Ok(Self {
            tls: tls.clone(),
            rustls: MakeRustlsConnect::new(config.as_ref().clone()),
        })
    }
}

impl<S> MakeTlsConnect<S> for RustlsConnector
where
    MakeRustlsConnect: MakeTlsConnect<S>,
{
    type Stream = <MakeRustlsConnect as MakeTlsConnect<S>>::Stream;
    type TlsConnect = <MakeRustlsConnect as MakeTlsConnect<S>>::TlsConnect;
    type Error = <MakeRustlsConnect as MakeTlsConnect<S>>::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Self::TlsConnect, Self::Error> {
        // A name that is not valid is refused by the connector.
        let name = self.tls.server_name(host);
        let name = name.as_ref().map_or(host.into(), |name| name.to_str());
        MakeTlsConnect::<S>::make_tls_connect(&mut self.rustls, &name)
    }
}
