//! The server's name in messages.

use tokio_postgres::config::{Config, Host};

/// Returns a name such as "PostgreSQL at a:5432, b:5432".
pub(super) fn of(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(5432);
    let tcp = |host: &str, index| match host.contains(':') {
        true => format!("[{host}]:{}", port(index)),
        false => format!("{host}:{}", port(index)),
    };
    let hosts = config.get_hosts().iter().enumerate();
    let mut addresses: Vec<_> = hosts
        .map(|(index, host)| match host {
            Host::Tcp(host) => tcp(host, index),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}/.s.PGSQL.{}", path.display(), port(index)),
        })
        .collect();
    if addresses.is_empty() {
        let ips = config.get_hostaddrs().iter().enumerate();
        addresses.extend(ips.map(|(index, ip)| tcp(&ip.to_string(), index)));
    }
    format!("PostgreSQL at {}", addresses.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_addresses_and_sockets() {
        let name = |text: &str| of(&text.parse().unwrap());
        assert_eq!(
            name("host=a,::1 port=5432,6000 password=secret"),
            "PostgreSQL at a:5432, [::1]:6000"
        );
        assert_eq!(
            name("hostaddr=10.0.0.1,10.0.0.2 port=7"),
            "PostgreSQL at 10.0.0.1:7, 10.0.0.2:7"
        );
        #[cfg(unix)]
        assert_eq!(name("host=/run/pg"), "PostgreSQL at /run/pg/.s.PGSQL.5432");
    }
}
