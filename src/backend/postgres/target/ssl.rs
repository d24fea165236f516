//! libpq's keywords for TLS.

use std::collections::BTreeMap;

use tokio_postgres::config::SslMode;

use crate::backend::tls::TlsOptions;
use crate::error::{Error, Result};

/// Removes the keywords for TLS and returns what they say. None if TLS is not to be used.
pub(super) fn take(all: &mut BTreeMap<String, String>) -> Result<Option<(SslMode, TlsOptions)>> {
    let mode = all.remove("sslmode");
    // A parameter of Prisma's: whether the certificate is verified.
    let accept = all.remove("sslaccept");
    let [root, cert, key] = ["sslrootcert", "sslcert", "sslkey"].map(|keyword| all.remove(keyword));
    let system_roots = root.as_deref() == Some("system");
    let mode = mode.as_deref().unwrap_or(if system_roots {
        "verify-full"
    } else {
        "prefer"
    });
    if system_roots && mode != "verify-full" {
        return Err(Error::invalid_argument(
            "sslrootcert=system needs sslmode=verify-full",
        ));
    }
    // As in libpq, modes that are weaker than verify-ca do not verify the server's certificate,
    // but require together with a root certificate means verify-ca.
    let (ssl_mode, mut verify, mut any_host) = match mode {
        "disable" => return Ok(None),
        "allow" | "prefer" => (SslMode::Prefer, false, true),
        "require" => (SslMode::Require, root.is_some(), true),
        // A mode of pg's.
        "no-verify" => (SslMode::Require, false, true),
        "verify-ca" => (SslMode::Require, true, true),
        "verify-full" => (SslMode::Require, true, false),
        _ => {
            return Err(Error::invalid_argument(
                "sslmode must be disable, allow, prefer, require, no-verify, verify-ca or verify-full",
            ));
        }
    };
    match accept.as_deref() {
        None | Some("accept_invalid_certs") => {}
        Some("strict") => (verify, any_host) = (true, false),
        Some(_) => {
            return Err(Error::invalid_argument(
                "sslaccept must be strict or accept_invalid_certs",
            ));
        }
    }
    if cert.is_some() != key.is_some() {
        return Err(Error::invalid_argument(
            "sslcert and sslkey, a client's own certificate, must be given together; \
             that of the authority, which Prisma calls sslcert, is sslrootcert",
        ));
    }
    let ca = match root {
        Some(path) if verify && !system_roots => vec![file("sslrootcert", path)?],
        _ => Vec::new(),
    };
    let options = TlsOptions {
        ca,
        cert: cert.map(|path| file("sslcert", path)).transpose()?,
        key: key.map(|path| file("sslkey", path)).transpose()?,
        servername: None,
        reject_unauthorized: Some(verify),
        any_host,
    };
    Ok(Some((ssl_mode, options)))
}

fn file(keyword: &str, path: String) -> Result<String> {
    std::fs::read_to_string(path).map_err(|cause| {
        Error::invalid_argument(format!("The file of {keyword} cannot be read")).cause(cause)
    })
}
