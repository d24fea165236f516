//! Parameters in URLs that were written for other libraries (Prisma, pg, JDBC), beside libpq's.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// The settings in such a URL that do not describe the connection.
pub(crate) struct ForeignSettings {
    /// The schema of tables whose names contain none.
    pub schema: Option<String>,
    pub pool_size: Option<u32>,
    /// Whether prepared statements must not be used, for example because of a pooler.
    pub unprepared: bool,
}

/// Settings for the pools and queries of other libraries. Here `operationTimeoutMs` bounds an operation.
const WITHOUT_EFFECT: [&str; 9] = [
    "pool_timeout",
    "socket_timeout",
    "max_connection_lifetime",
    "max_idle_connection_lifetime",
    "single_use_connections",
    "statement_timeout",
    "query_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
];

/// Removes the parameters that libpq does not have and returns their settings.
pub(super) fn take_foreign_settings(all: &mut BTreeMap<String, String>) -> Result<ForeignSettings> {
    let mut take = |keyword: &str| all.remove(keyword).filter(|value| !value.is_empty());
    for keyword in WITHOUT_EFFECT {
        take(keyword);
    }
    // This parameter tells pg to read sslmode as libpq does. We always do.
    if take("uselibpqcompat").is_some_and(|on| on != "true") {
        return Err(Error::invalid_argument(
            "sslmode means what libpq says it does: instead of uselibpqcompat=false \
             use sslmode=verify-full",
        ));
    }
    let pool_size = take("connection_limit")
        .map(|limit| match limit.parse() {
            Ok(size) if (1..=1000).contains(&size) => Ok(size),
            _ => Err(Error::invalid_argument(
                "The PostgreSQL connection parameter connection_limit must be from 1 to 1000",
            )),
        })
        .transpose()?;
    let pooled = take("pgbouncer").is_some_and(|on| on == "true");
    let uncached = take("statement_cache_size").is_some_and(|size| size == "0");
    Ok(ForeignSettings {
        schema: take("schema"),
        pool_size,
        unprepared: pooled || uncached,
    })
}

/// The error for a parameter that is not known. `is_certain`: it is not a part of a password.
pub(super) fn unknown_parameter(keyword: &str, is_certain: bool) -> Error {
    let remedy = match keyword {
        "search_path" | "currentSchema" => "use schema=… or options=-c%20search_path%3D…",
        "sslidentity" | "sslpassword" => {
            "a PKCS#12 file or an encrypted key is not read, so give sslcert and sslkey \
             as unencrypted PEM files"
        }
        "max" | "pool" | "pool_size" => "use connection_limit=… or set poolSize in the options",
        "prepare" | "prepared_statements" => "use pgbouncer=true or set prepare in the options",
        "passfile" | "service" | "servicefile" => "put what the file says into the URL",
        _ => "leave it out of the URL, or pass an options object",
    };
    // What does not look like a keyword may be a part of a password that was not encoded.
    let looks_like_one = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if is_certain && keyword.bytes().all(looks_like_one) {
        Error::invalid_argument(format!(
            "The PostgreSQL connection parameter \"{keyword}\" is not supported: {remedy}"
        ))
    } else {
        Error::invalid_argument(
            "A PostgreSQL connection parameter is not supported: leave it out of the URL; \
             characters such as / ? # @ : in a password must be percent-encoded",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(query: &str) -> BTreeMap<String, String> {
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(keyword, value)| (keyword.to_owned(), value.to_owned()))
            .collect()
    }

    #[test]
    fn parameters_of_prisma_and_pg() {
        let mut all = map(
            "schema=app&connection_limit=3&pgbouncer=true&pool_timeout=20\
             &socket_timeout=5&statement_timeout=1000&uselibpqcompat=true&sslmode=require",
        );
        let settings = take_foreign_settings(&mut all).unwrap();
        assert_eq!(settings.schema.as_deref(), Some("app"));
        assert_eq!(settings.pool_size, Some(3));
        assert!(settings.unprepared);
        assert_eq!(all, map("sslmode=require"));

        let settings = |query| take_foreign_settings(&mut map(query));
        assert!(settings("statement_cache_size=0").unwrap().unprepared);
        assert!(!settings("statement_cache_size=100").unwrap().unprepared);
        assert!(!settings("pgbouncer=false").unwrap().unprepared);
        for bad in [
            "connection_limit=0",
            "connection_limit=1001",
            "connection_limit=x",
            "uselibpqcompat=false",
        ] {
            assert!(settings(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_unknown_parameter_is_named_with_a_remedy_unless_it_may_be_a_secret() {
        for (keyword, said) in [
            ("supa", "\"supa\""),
            ("supa", "leave it out"),
            ("currentSchema", "schema="),
            ("sslidentity", "sslkey"),
            ("max", "poolSize"),
        ] {
            let message = unknown_parameter(keyword, true).message;
            assert!(message.contains(said), "{message}");
        }
        let message = unknown_parameter("cret@db.example/app", true).message;
        assert!(!message.contains("cret@"), "{message}");
    }
}
