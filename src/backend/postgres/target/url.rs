//! Splits `postgres://user:password@host:port,host/database?keyword=value` into libpq's keywords. Messages
//! never quote the URL, because it may contain a password.

use crate::error::{Error, Result};

/// Returns keywords and values in the order of the URL. If a keyword is repeated, the last value counts.
pub(super) fn parse(url: &str) -> Result<Vec<(String, String)>> {
    let rest = url
        .strip_prefix("postgres://")
        .or_else(|| url.strip_prefix("postgresql://"))
        .ok_or_else(|| match url.split_once(':') {
            Some(("prisma" | "prisma+postgres", _)) => {
                malformed("it is the URL of a Prisma proxy: use the one of the database itself")
            }
            _ => malformed("it must begin with postgres:// or postgresql://"),
        })?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    // A password may contain an @ that was not encoded; a host cannot.
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (Some(login), hosts),
        // The password contains a slash: what looks like host and port are user and password.
        None if database.contains('@') => {
            return Err(malformed("a / in a password must be percent-encoded"));
        }
        None => (None, authority),
    };

    let mut found = Vec::new();
    let mut add = |keyword: &str, value: &str| -> Result<()> {
        if !value.is_empty() {
            found.push((keyword.to_owned(), decode(value)?));
        }
        Ok(())
    };
    if let Some(login) = login {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        add("user", user)?;
        add("password", password)?;
    }
    add("dbname", database)?;
    if !hosts.is_empty() {
        let (names, ports): (Vec<_>, Vec<_>) = hosts
            .split(',')
            .map(host_and_port)
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .unzip();
        add("host", &names.join(","))?;
        if ports.iter().any(|port| !port.is_empty()) {
            add("port", &ports.join(","))?;
        }
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (keyword, value) = pair
            .split_once('=')
            .ok_or_else(|| malformed("each parameter must be keyword=value"))?;
        add(&decode(keyword)?, value)?;
    }
    Ok(found)
}

fn host_and_port(text: &str) -> Result<(&str, &str)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(inside) => {
            let (host, rest) = inside
                .split_once(']')
                .ok_or_else(|| malformed("an IPv6 address lacks its closing bracket"))?;
            (host, rest.strip_prefix(':').unwrap_or(rest))
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    if port.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok((host, port))
    } else {
        Err(malformed(
            "a port is not a number (characters such as / ? # @ : in a password must be percent-encoded)",
        ))
    }
}

/// Decodes like libpq, which leaves a plus sign as it is.
fn decode(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| (byte as char).to_digit(16));
        match (digit(rest.next()), digit(rest.next())) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err(malformed("a % is not followed by two hexadecimal digits")),
        }
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(malformed("its percent-encoded text is not valid UTF-8")),
    }
}

fn malformed(what: &str) -> Error {
    Error::invalid_argument(format!("The PostgreSQL URL is malformed: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Vec<(String, String)> {
        parse(url).unwrap()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(keyword, value)| ((*keyword).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn the_usual_forms() {
        assert_eq!(parsed("postgres://"), pairs(&[]));
        assert_eq!(
            parsed("postgresql://me:s3cret@db.example:6543/app?sslmode=verify-full"),
            pairs(&[
                ("user", "me"),
                ("password", "s3cret"),
                ("dbname", "app"),
                ("host", "db.example"),
                ("port", "6543"),
                ("sslmode", "verify-full"),
            ])
        );
        assert_eq!(
            parsed("postgres://h1,[::1]:6000,h3/"),
            pairs(&[("host", "h1,::1,h3"), ("port", ",6000,")])
        );
        assert_eq!(
            parsed("postgres:///app?host=/run/pg&options=-c%20search_path%3Dapp"),
            pairs(&[
                ("dbname", "app"),
                ("host", "/run/pg"),
                ("options", "-c search_path=app")
            ])
        );
        assert_eq!(
            parsed("postgres://me@%2Frun%2Fpg:6000/app"),
            pairs(&[
                ("user", "me"),
                ("dbname", "app"),
                ("host", "/run/pg"),
                ("port", "6000")
            ])
        );
    }

    #[test]
    fn passwords_with_special_characters() {
        for (written, meant) in [
            ("p%40ss%3A%2F%3F%23%25", "p@ss:/?#%"),
            ("p@ss:wo+rd", "p@ss:wo+rd"),
            ("%C3%A9%F0%9F%94%91", "é🔑"),
            ("a'b\\c\"d", "a'b\\c\"d"),
        ] {
            let url = format!("postgres://me:{written}@h/db");
            assert!(parsed(&url).contains(&("password".to_owned(), meant.to_owned())));
        }
    }

    #[test]
    fn the_url_of_a_prisma_proxy_is_refused() {
        let error = parse("prisma+postgres://accelerate.example/?api_key=s3cret").unwrap_err();
        assert!(error.message.contains("the database itself"));
        assert!(!error.message.contains("s3cret"));
    }

    #[test]
    fn mistakes_are_named_without_the_password() {
        for url in [
            "mysql://me:s3cret@h/db",
            "me:s3cret@h",
            "postgres://me:s3cret@h:port/db",
            "postgres://me:s3cret/x@h/db",
            "postgres://me:5432/s3cret@h/db",
            "postgres://me:s3cret%zz@h/db",
            "postgres://me:s3cret%ff@h/db",
            "postgres://me:s3cret%00@h/db",
            "postgres://me:s3cret@[::1/db",
            "postgres://me:s3cret@h/db?sslmode",
        ] {
            let error = parse(url).unwrap_err();
            assert!(!error.message.contains("s3cret"), "{}", error.message);
        }
    }
}
