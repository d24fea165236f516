//! Where the server is and how to log in. Turns libpq's keywords from the environment, the URL and the
//! options into the driver's configuration.
//!
//! - [`url`] reads a URL, [`foreign`] parameters that other libraries put into one
//! - [`ssl`] libpq's keywords for TLS, [`server_name`] the server's name in messages

mod foreign;
mod server_name;
mod ssl;
mod url;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::config::{Config, Host, SslMode, TargetSessionAttrs};

use self::foreign::{ForeignSettings, take_foreign_settings, unknown_parameter};
use crate::backend::tls::{Tls, TlsOptions};
use crate::error::{Error, Result};

/// The keywords that the driver understands as libpq does.
const READ_BY_DRIVER: [&str; 17] = [
    "user",
    "password",
    "dbname",
    "options",
    "application_name",
    "host",
    "hostaddr",
    "port",
    "connect_timeout",
    "target_session_attrs",
    "load_balance_hosts",
    "channel_binding",
    "sslnegotiation",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
];

pub(crate) struct Target {
    pub config: Config,
    /// The server's name in messages.
    pub server: Arc<str>,
    pub tls: Option<Tls>,
    pub connect_timeout: Option<Duration>,
    pub foreign: ForeignSettings,
}

impl Target {
    /// Limits the time for each of several hosts, so that some is left for the others if one does not
    /// answer. The limit is shorter than `connect_timeout` for a single host too: the driver's error
    /// then says what happened, which our own limit could not.
    pub(crate) fn limit_each_host(&mut self, connect_timeout: Duration) {
        let (names, addresses) = (self.config.get_hosts(), self.config.get_hostaddrs());
        let hosts = u32::try_from(names.len().max(addresses.len())).unwrap_or(u32::MAX);
        let limit = connect_timeout.mul_f64(0.75) / hosts.max(1);
        self.config.connect_timeout(limit);
    }
}

/// Combines the three sources. `params`, from the options, override the URL, and both override
/// `defaults`, from the environment.
pub(crate) fn resolve(
    defaults: BTreeMap<String, String>,
    url: Option<&str>,
    params: BTreeMap<String, String>,
    tls: Option<TlsOptions>,
) -> Result<Target> {
    let mut all = BTreeMap::new();
    let in_url = url.map(url::parse).transpose()?.unwrap_or_default();
    for layer in [defaults, in_url.into_iter().collect(), params] {
        // The port and the address of a weaker source belong to another host.
        if layer.contains_key("host") {
            all.remove("hostaddr");
            all.remove("port");
        }
        all.extend(layer.into_iter().map(libpq_keyword));
    }
    // If a password contains a question mark, what follows looks like parameters.
    let is_certain = !url.is_some_and(|url| {
        url.split_once('?')
            .is_some_and(|(_, query)| query.contains('@'))
    });
    build(all, tls, is_certain)
}

/// Translates keywords that other libraries use for those of libpq.
fn libpq_keyword((keyword, value): (String, String)) -> (String, String) {
    match keyword.as_str() {
        "database" => ("dbname".to_owned(), value),
        "ssl" => {
            let mode = match value.as_str() {
                "true" | "1" => "require",
                "false" | "0" => "disable",
                mode => mode,
            };
            ("sslmode".to_owned(), mode.to_owned())
        }
        _ => (keyword, value),
    }
}

fn build(
    mut all: BTreeMap<String, String>,
    tls: Option<TlsOptions>,
    is_certain: bool,
) -> Result<Target> {
    all.retain(|_, value| !value.is_empty());
    let foreign = take_foreign_settings(&mut all)?;
    let in_keywords = ssl::take(&mut all);
    let ssl = match tls {
        Some(options) => Some((SslMode::Require, options)),
        None => in_keywords?,
    };
    add_defaults(&mut all)?;
    let mut config = driver_config(&mut all)?;
    // For the driver this is in seconds.
    if let Some(ms) = all.remove("tcp_user_timeout") {
        let ms = ms.parse().map_err(|_| wrong("tcp_user_timeout"))?;
        config.tcp_user_timeout(Duration::from_millis(ms));
    }
    check(&config)?;
    let encoding = all.remove("client_encoding");
    if encoding.is_some_and(|encoding| !is_utf8(&encoding)) {
        return Err(wrong("client_encoding"));
    }
    // Encryption by GSSAPI is not supported. Only a URL that demands it is refused.
    if all
        .remove("gssencmode")
        .is_some_and(|mode| mode == "require")
    {
        return Err(wrong("gssencmode"));
    }
    if let Some(keyword) = all.into_keys().next() {
        return Err(unknown_parameter(&keyword, is_certain));
    }

    let is_socket = |host: &Host| !matches!(host, Host::Tcp(_));
    let over_sockets_only =
        config.get_hostaddrs().is_empty() && config.get_hosts().iter().all(is_socket);
    // Unix sockets do not support TLS and do not need it.
    let (mode, options) = ssl
        .filter(|_| !over_sockets_only)
        .map_or((SslMode::Disable, None), |(mode, options)| {
            (mode, Some(options))
        });
    config.ssl_mode(mode);
    Ok(Target {
        tls: options.map(Tls::new).transpose()?,
        server: server_name::of(&config).into(),
        connect_timeout: config.get_connect_timeout().copied(),
        config,
        foreign,
    })
}

/// Adds what a program may leave out.
fn add_defaults(all: &mut BTreeMap<String, String>) -> Result<()> {
    let user = all.get("user").cloned().ok_or_else(|| {
        Error::invalid_argument("No PostgreSQL user is given: put it into the URL or the options")
    })?;
    all.entry("dbname".to_owned()).or_insert(user);
    if let Some(name) = all.remove("fallback_application_name") {
        all.entry("application_name".to_owned()).or_insert(name);
    }
    if !all.contains_key("hostaddr") {
        all.entry("host".to_owned()).or_default();
    }
    if let Some(hosts) = all.get_mut("host") {
        *hosts = hosts
            .split(',')
            .map(|host| if host.is_empty() { "localhost" } else { host })
            .collect::<Vec<_>>()
            .join(",");
    }
    // Locks need a server that can be written to.
    if let Some(attrs) = all.get_mut("target_session_attrs")
        && attrs == "primary"
    {
        *attrs = "read-write".to_owned();
    }
    Ok(())
}

/// Takes the parameters that the driver reads.
fn driver_config(all: &mut BTreeMap<String, String>) -> Result<Config> {
    let mut params = String::new();
    let mut config = Config::new();
    for keyword in READ_BY_DRIVER {
        if let Some(value) = all.remove(keyword) {
            let value = value.replace('\\', r"\\").replace('\'', r"\'");
            let name = match keyword {
                "keepalives_count" => "keepalives_retries",
                name => name,
            };
            params.push_str(&format!("{name}='{value}' "));
            config = params.parse().map_err(|_| wrong(keyword))?;
        }
    }
    Ok(config)
}

/// Refuses what the driver would notice too late, or understand in another way.
fn check(config: &Config) -> Result<()> {
    // Without Unix sockets the driver would look up a server of that name.
    let is_path = |host: &Host| matches!(host, Host::Tcp(name) if name.starts_with('/'));
    if config.get_hosts().iter().any(is_path) {
        return Err(Error::invalid_argument(
            "Unix sockets are not available on this system",
        ));
    }
    let (names, addresses) = (config.get_hosts().len(), config.get_hostaddrs().len());
    if names > 0 && addresses > 0 && names != addresses {
        return Err(Error::invalid_argument(
            "There must be as many PostgreSQL hosts as values of hostaddr",
        ));
    }
    let ports = config.get_ports().len();
    if ports > 1 && ports != names.max(addresses) {
        return Err(Error::invalid_argument(
            "There must be one PostgreSQL port for all hosts or one for each",
        ));
    }
    match config.get_target_session_attrs() {
        TargetSessionAttrs::Any | TargetSessionAttrs::ReadWrite => Ok(()),
        _ => Err(wrong("target_session_attrs")),
    }
}

fn is_utf8(encoding: &str) -> bool {
    matches!(
        encoding.to_ascii_lowercase().as_str(),
        "utf8" | "utf-8" | "unicode" | "auto"
    )
}

fn wrong(keyword: &str) -> Error {
    Error::invalid_argument(format!(
        "The PostgreSQL connection parameter {keyword} has a value that cannot be used"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(keyword, value)| ((*keyword).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn target(url: &str) -> Result<Target> {
        resolve(map(&[("user", "os")]), Some(url), BTreeMap::new(), None)
    }

    fn tcp(names: &[&str]) -> Vec<Host> {
        names
            .iter()
            .map(|name| Host::Tcp((*name).to_owned()))
            .collect()
    }

    #[test]
    fn options_override_the_url_and_the_url_overrides_the_environment() {
        let target = resolve(
            map(&[
                ("host", "env"),
                ("port", "1"),
                ("user", "env"),
                ("dbname", "env"),
            ]),
            Some("postgres://url@url-host/url-db"),
            map(&[("dbname", "option")]),
            None,
        )
        .unwrap();
        assert_eq!(target.config.get_hosts(), tcp(&["url-host"]));
        assert!(target.config.get_ports().is_empty());
        assert_eq!(target.config.get_user(), Some("url"));
        assert_eq!(target.config.get_dbname(), Some("option"));
    }

    #[test]
    fn several_hosts_and_their_ports() {
        let target =
            target("postgres://a,b:6000/d?target_session_attrs=primary&load_balance_hosts=random")
                .unwrap();
        assert_eq!(target.config.get_hosts(), tcp(&["a", "b"]));
        assert_eq!(target.config.get_ports(), [5432, 6000]);
        assert_eq!(
            target.config.get_target_session_attrs(),
            TargetSessionAttrs::ReadWrite
        );
        assert!(super::tests::target("postgres://a,b,c/d?port=1,2").is_err());
    }

    #[test]
    fn ssl_modes() {
        let mode = |query: &str| {
            let target = target(&format!("postgres://h/d?{query}")).unwrap();
            (target.config.get_ssl_mode(), target.tls.is_some())
        };
        assert_eq!(mode(""), (SslMode::Prefer, true));
        assert_eq!(mode("sslaccept=strict"), (SslMode::Prefer, true));
        assert_eq!(mode("sslmode=disable"), (SslMode::Disable, false));
        for required in [
            "sslmode=require",
            "sslmode=verify-ca",
            "sslmode=verify-full",
            "ssl=true",
            "sslrootcert=system",
            "sslmode=no-verify",
            "ssl=no-verify",
            "sslmode=require&sslaccept=strict",
        ] {
            assert_eq!(mode(required), (SslMode::Require, true), "{required}");
        }
        for bad in [
            "sslmode=maybe",
            "sslmode=require&sslrootcert=system",
            "sslmode=verify-ca&sslrootcert=/no/such/file",
            "sslmode=require&sslcert=/no/such/file",
            "sslaccept=maybe",
        ] {
            assert!(target(&format!("postgres://h/d?{bad}")).is_err(), "{bad}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn sockets_need_no_tls() {
        let target = target("postgres:///d?host=/run/pg&sslmode=require").unwrap();
        assert_eq!(target.config.get_hosts(), [Host::Unix("/run/pg".into())]);
        assert_eq!(target.config.get_ssl_mode(), SslMode::Disable);
    }

    #[cfg(not(unix))]
    #[test]
    fn sockets_are_refused_where_there_are_none() {
        assert!(target("postgres:///d?host=/run/pg").is_err());
    }

    #[test]
    fn unknown_parameters_and_values_are_refused() {
        for bad in [
            "search_path=x",
            "target_session_attrs=standby",
            "client_encoding=latin1",
            "port=x",
            "keepalives_idle=x",
            "gssencmode=require",
            "hostaddr=127.0.0.1,127.0.0.2",
        ] {
            assert!(target(&format!("postgres://h/d?{bad}")).is_err(), "{bad}");
        }
    }
}
