//! TLS for the backends that dial themselves: rustls with ring, and the system's roots or given ones.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use serde::Deserialize;

use crate::error::{Error, Result};

/// Installs the process's default provider, for drivers that cannot be given one. An existing default is
/// kept.
pub fn install_provider() {
    let _ = ring::default_provider().install_default();
}

/// As in Node's `tls.connect`. `ca` replaces the system's roots.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TlsOptions {
    pub ca: Vec<String>,
    pub cert: Option<String>,
    pub key: Option<String>,
    /// The name that the certificate must have, if it is not the host that is dialled.
    pub servername: Option<String>,
    pub reject_unauthorized: Option<bool>,
    /// Whether a certificate of a known authority is accepted whatever its name is.
    #[serde(skip)]
    pub any_host: bool,
}

/// Certificates and keys are never printed.
impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsOptions(…)")
    }
}

/// Checked options. The rustls configuration is created on first use, because reading the system's roots
/// takes a while.
#[derive(Clone)]
pub struct Tls {
    options: TlsOptions,
    roots: Option<RootCertStore>,
    config: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl Tls {
    pub fn new(options: TlsOptions) -> Result<Self> {
        let mut roots = None;
        for pem in &options.ca {
            for certificate in certificates(pem, "ca")? {
                roots
                    .get_or_insert_with(RootCertStore::empty)
                    .add(certificate)
                    .map_err(|cause| invalid("ca", cause))?;
            }
        }
        if let Some(name) = &options.servername {
            server_name(name)?;
        }
        let tls = Self {
            options,
            roots,
            config: Arc::default(),
        };
        tls.identity()?;
        Ok(tls)
    }

    /// Returns the name to ask for and to verify if `host` is dialled.
    pub fn server_name(&self, host: &str) -> Result<ServerName<'static>> {
        server_name(self.options.servername.as_deref().unwrap_or(host))
    }

    pub async fn config(&self) -> Result<Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let tls = self.clone();
        let built = tokio::task::spawn_blocking(move || tls.build())
            .await
            .map_err(|_| Error::internal("The TLS configuration could not be made"))??;
        Ok(Arc::clone(self.config.get_or_init(|| Arc::new(built))))
    }

    fn build(&self) -> Result<ClientConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|cause| Error::internal("TLS is not available").cause(cause))?;
        let accepts_any = self.options.reject_unauthorized == Some(false);
        let builder = if accepts_any || self.options.any_host {
            let algorithms = provider.signature_verification_algorithms;
            let chain = if accepts_any {
                None
            } else {
                let roots = self.roots()?.into();
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider);
                Some(verifier.build().map_err(|cause| invalid("ca", cause))?)
            };
            let verifier = Arc::new(Lenient { chain, algorithms });
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        Ok(match self.identity()? {
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|cause| invalid("cert and key", cause))?,
            None => builder.with_no_client_auth(),
        })
    }

    fn roots(&self) -> Result<RootCertStore> {
        self.roots.clone().map_or_else(system_roots, Ok)
    }

    fn identity(&self) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>> {
        match (&self.options.cert, &self.options.key) {
            (None, None) => Ok(None),
            (Some(cert), Some(key)) => {
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                    .map_err(|_| invalid("key", "no unencrypted PEM private key was found"))?;
                Ok(Some((certificates(cert, "cert")?, key)))
            }
            _ => Err(Error::invalid_argument(
                "tls.cert and tls.key must be given together",
            )),
        }
    }
}

fn certificates(pem: &str, option: &str) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|cause| invalid(option, cause))?;
    if found.is_empty() {
        return Err(invalid(option, "no PEM certificate was found"));
    }
    Ok(found)
}

fn server_name(name: &str) -> Result<ServerName<'static>> {
    // An IPv6 address may come in the brackets of a URL.
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(bare.to_owned()).map_err(|_| {
        Error::invalid_argument(
            "The TLS server name is neither a host name nor an IP address: set tls.servername",
        )
    })
}

pub fn system_roots() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Error::invalid_argument(
            "The system has no root certificates to verify the server with: set tls.ca",
        ));
    }
    Ok(roots)
}

/// Returns the system's roots, or Mozilla's where the system has none, as in slim container images.
pub async fn system_or_mozilla_roots() -> RootCertStore {
    let roots = tokio::task::spawn_blocking(system_roots).await;
    roots
        .ok()
        .and_then(Result::ok)
        .unwrap_or_else(|| RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        })
}

pub async fn has_system_roots() -> bool {
    let roots = tokio::task::spawn_blocking(system_roots).await;
    roots.is_ok_and(|roots| roots.is_ok())
}

fn invalid(option: &str, cause: impl ToString) -> Error {
    Error::invalid_argument(format!("tls.{option} cannot be used")).cause(cause)
}

/// Verifies less than rustls does: everything but the name, or nothing but that the server has the
/// certificate's private key.
#[derive(Debug)]
struct Lenient {
    /// None accepts any certificate, for `rejectUnauthorized: false`.
    chain: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        // A wrong name is only reported if the chain is valid.
        match chain.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::CryptoProvider;

    use super::*;
    use crate::error::ErrorCode;

    #[test]
    fn nonsense_is_refused_at_once() {
        let nonsense = || Some("nonsense".to_owned());
        for options in [
            TlsOptions {
                ca: vec!["nonsense".to_owned()],
                ..TlsOptions::default()
            },
            TlsOptions {
                cert: nonsense(),
                ..TlsOptions::default()
            },
            TlsOptions {
                cert: nonsense(),
                key: nonsense(),
                ..TlsOptions::default()
            },
            TlsOptions {
                servername: Some("not a host".to_owned()),
                ..TlsOptions::default()
            },
        ] {
            let error = Tls::new(options).err().unwrap();
            assert_eq!(error.code, ErrorCode::InvalidArgument);
        }
    }

    #[test]
    fn the_dialled_host_is_verified_unless_another_name_is_given() {
        let plain = Tls::new(TlsOptions::default()).unwrap();
        assert_eq!(
            plain.server_name("[::1]").unwrap(),
            ServerName::try_from("::1").unwrap()
        );
        let named = Tls::new(TlsOptions {
            servername: Some("db.example".to_owned()),
            ..TlsOptions::default()
        })
        .unwrap();
        assert_eq!(
            named.server_name("10.0.0.1").unwrap(),
            ServerName::try_from("db.example").unwrap()
        );
    }

    #[test]
    fn the_provider_of_the_process_is_installed_once_and_kept() {
        install_provider();
        let first = CryptoProvider::get_default().map(Arc::as_ptr);
        install_provider();
        assert!(first.is_some());
        assert_eq!(CryptoProvider::get_default().map(Arc::as_ptr), first);
    }
}
