//! What URLs that were written for other libraries (Prisma, pg, JDBC) say beside libpq's keywords.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// What such a URL says about more than the connection.
pub(crate) struct Wishes {
    /// Of the tables whose names have none.
    pub schema: Option<String>,
    pub pool_size: Option<u32>,
    /// There is a pooler in between, or whatever else does not get along with prepared statements.
    pub unprepared: bool,
}

/// How other libraries run their own pools and queries. Here `operationTimeoutMs` bounds all of it.
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

/// Takes out what does not stand for a keyword of libpq's.
pub(super) fn take_wishes(all: &mut BTreeMap<String, String>) -> Result<Wishes> {
    let mut take = |keyword: &str| all.remove(keyword).filter(|value| !value.is_empty());
    for keyword in WITHOUT_EFFECT {
        take(keyword);
    }
    // pg's way to ask for the sslmode of libpq, which is the only one here.
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
    Ok(Wishes {
        schema: take("schema"),
        pool_size,
        unprepared: pooled || uncached,
    })
}

/// For a parameter that nobody took. `is_certain`: it is one, and no part of a password.
pub(super) fn unknown(keyword: &str, is_certain: bool) -> Error {
    let way_out = match keyword {
        "search_path" | "currentSchema" => "say schema=… or options=-c%20search_path%3D…",
        "sslidentity" | "sslpassword" => {
            "a PKCS#12 file or an encrypted key is not read, so give sslcert and sslkey \
             as unencrypted PEM files"
        }
        "max" | "pool" | "pool_size" => "say connection_limit=… or set poolSize in the options",
        "prepare" | "prepared_statements" => "say pgbouncer=true or set prepare in the options",
        "passfile" | "service" | "servicefile" => "put what the file says into the URL",
        _ => "leave it out of the URL, or pass an options object",
    };
    // What does not look like a keyword may be a part of a password that was not encoded.
    let looks_like_one = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if is_certain && keyword.bytes().all(looks_like_one) {
        Error::invalid_argument(format!(
            "The PostgreSQL connection parameter \"{keyword}\" is not supported: {way_out}"
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
    fn prismas_and_pgs_parameters() {
        let mut all = map(
            "schema=app&connection_limit=3&pgbouncer=true&pool_timeout=20\
             &socket_timeout=5&statement_timeout=1000&uselibpqcompat=true&sslmode=require",
        );
        let wishes = take_wishes(&mut all).unwrap();
        assert_eq!(wishes.schema.as_deref(), Some("app"));
        assert_eq!(wishes.pool_size, Some(3));
        assert!(wishes.unprepared);
        assert_eq!(all, map("sslmode=require"));

        let wishes = |query| take_wishes(&mut map(query));
        assert!(wishes("statement_cache_size=0").unwrap().unprepared);
        assert!(!wishes("statement_cache_size=100").unwrap().unprepared);
        assert!(!wishes("pgbouncer=false").unwrap().unprepared);
        for bad in [
            "connection_limit=0",
            "connection_limit=1001",
            "connection_limit=x",
            "uselibpqcompat=false",
        ] {
            assert!(wishes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_unknown_is_named_with_a_way_out_unless_it_may_be_a_secret() {
        for (keyword, said) in [
            ("supa", "\"supa\""),
            ("supa", "leave it out"),
            ("currentSchema", "schema="),
            ("sslidentity", "sslkey"),
            ("max", "poolSize"),
        ] {
            let message = unknown(keyword, true).message;
            assert!(message.contains(said), "{message}");
        }
        let message = unknown("cret@db.example/app", true).message;
        assert!(!message.contains("cret@"), "{message}");
    }
}
