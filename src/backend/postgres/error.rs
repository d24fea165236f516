//! Maps the driver's errors to ours.
//!
//! The server's texts are passed on only if they cannot contain a key or a lockId. Its DETAIL often
//! does, and so do its messages about values and syntax.

use std::error::Error as _;

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::backend::unreachable::{Peer, Reason, Settings, and_says};
use crate::error::{Error, ErrorCode};

/// What users can do about problems with TLS.
pub(super) const SETTINGS: Settings = Settings {
    use_tls: "Set sslmode=require, or the option ssl",
    use_no_tls: "Set sslmode=prefer or sslmode=disable, or leave out the option ssl",
    trust_authority: "Name the certificate of its authority with sslrootcert, or pass it as ssl.ca",
    expect_name: "Connect by the name in its certificate, or pass that as ssl.servername",
    present_certificate: "If it wants a client certificate, set sslcert and sslkey, or pass ssl.cert and ssl.key",
};

/// The error of a connection that could not be made.
pub(super) fn while_connecting(error: &tokio_postgres::Error, peer: &Peer<'_>) -> Error {
    if let Some(answer) = error.as_db_error() {
        return match advice(answer) {
            Some(advice) => and_says(from_server(answer, peer.name), advice),
            None => from_server(answer, peer.name),
        };
    }
    // The driver does not reveal the kind of its errors except by this text.
    let reason = match (error.to_string().as_str(), Reason::of(error)) {
        ("error performing TLS handshake", _) if is_without_tls(error) => Reason::SpeaksNoTls,
        ("connection closed" | "error communicating with the server", Reason::Other) => {
            Reason::Closed
        }
        (
            "connection closed"
            | "error communicating with the server"
            | "error connecting to server"
            | "error performing TLS handshake",
            found,
        ) => found,
        ("unexpected message from server" | "error parsing response from server", _) => {
            return Error::invalid_argument(format!(
                "Cannot connect to {}: it does not speak the protocol of PostgreSQL. Is this the right port?",
                peer.name
            ));
        }
        _ => return from_driver(error, peer.name),
    };
    because_of_source(peer.error(reason), error)
}

/// Whether the driver reports that the server has no TLS.
fn is_without_tls(error: &tokio_postgres::Error) -> bool {
    let cause = error.source().map(ToString::to_string);
    cause.is_some_and(|text| text.contains("does not support TLS"))
}

fn because_of_source(mapped: Error, error: &tokio_postgres::Error) -> Error {
    match error.source() {
        Some(source) => mapped.cause(source),
        None => mapped,
    }
}

/// Returns what to do about a login that was refused, as far as the server's message tells.
fn advice(answer: &DbError) -> Option<&'static str> {
    let says = |text| answer.message().contains(text);
    match answer.code().code() {
        "28000" if says("client certificate") => Some(SETTINGS.present_certificate),
        "28000" if says("no encryption") || says("SSL off") => {
            Some("It demands TLS: set sslmode=require, or the option ssl")
        }
        "28000" if says("pg_hba.conf") => Some("Its pg_hba.conf has no entry that allows it"),
        "28P01" => Some("Check the user and the password"),
        _ => None,
    }
}

/// `server` is its name in messages, such as "PostgreSQL at localhost:5432".
pub(super) fn from_driver(error: &tokio_postgres::Error, server: &str) -> Error {
    if let Some(answer) = error.as_db_error() {
        return from_server(answer, server);
    }
    let mapped = match error.to_string().as_str() {
        "connection closed" | "error communicating with the server" => {
            Error::unavailable(format!("The connection to {server} was lost"))
        }
        "authentication error" => Error::new(
            ErrorCode::AuthFailed,
            format!("{server} refused the login, or offers no way to log in that is supported"),
        ),
        "invalid configuration" => Error::new(
            ErrorCode::AuthFailed,
            format!("{server} asks for a password, and none was given"),
        ),
        _ => return Error::internal(format!("{server} answered in an unexpected way")),
    };
    because_of_source(mapped, error)
}

/// The error of a request that was sent. An `ERROR` of the server means that it rolled the transaction
/// back. After anything else the transaction may have been committed.
pub(super) fn of_request(error: &tokio_postgres::Error, server: &str) -> Error {
    let mapped = from_driver(error, server);
    let rolled_back = error.as_db_error().is_some_and(|answer| {
        answer.parsed_severity() == Some(Severity::Error)
            && !matches!(answer.code().code(), "40003" | "08007")
    });
    if rolled_back {
        mapped
    } else {
        mapped.outcome_unknown()
    }
}

/// Whether the connection can be used again after a request failed with this error.
pub(super) fn keeps_connection(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|answer| {
        answer.parsed_severity() == Some(Severity::Error)
            // The server has become a standby. A new connection may find the new primary.
            && *answer.code() != SqlState::READ_ONLY_SQL_TRANSACTION
    })
}

/// Whether a statement that we prepared is missing or exists twice: the session is shared.
pub(super) fn session_is_shared(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::INVALID_SQL_STATEMENT_NAME || *code == SqlState::DUPLICATE_PSTATEMENT
    })
}

/// Whether another session held a database lock that was needed for longer than `lock_timeout`.
/// Nothing was done.
pub(super) fn is_lock_timeout(error: &Error) -> bool {
    has_state(error, &SqlState::LOCK_NOT_AVAILABLE)
}

/// Whether a table does not exist.
pub(super) fn is_missing_table(error: &Error) -> bool {
    has_state(error, &SqlState::UNDEFINED_TABLE)
}

/// Whether the role lacks a right.
pub(super) fn is_forbidden(error: &Error) -> bool {
    has_state(error, &SqlState::INSUFFICIENT_PRIVILEGE)
}

/// The error of a shared acquire on a database that was set up by an earlier version of this package.
pub(super) fn without_holders(table: &str, error: &Error) -> Error {
    Error {
        message: format!(
            "Keys cannot be shared on this database yet, because the table {table} does not exist: add it with \
             npx syncguard schema --url postgres://… --apply, or with setupSchema(). Exclusive locks work without it"
        ),
        ..error.clone()
    }
}

/// Whether another session created a table or an index at the same time.
pub(super) fn exists_already(error: &Error) -> bool {
    has_state(error, &SqlState::DUPLICATE_TABLE) || has_state(error, &SqlState::UNIQUE_VIOLATION)
}

/// Whether the server refused this very request. Others, or the same one in another form, may succeed.
pub(super) fn is_about_request(error: &Error) -> bool {
    let about_server = |state: &str| {
        let classes = ["08", "28", "53", "57P"];
        classes.iter().any(|class| state.starts_with(class))
    };
    sqlstate(error).is_some_and(|state| !about_server(state))
}

/// Whether the connection was lost while a request was in flight.
pub(super) fn is_lost(error: &Error) -> bool {
    error.outcome_unknown && error.code == ErrorCode::ServiceUnavailable
}

fn has_state(error: &Error, state: &SqlState) -> bool {
    sqlstate(error) == Some(state.code())
}

fn sqlstate(error: &Error) -> Option<&str> {
    let mut details = error.details.iter();
    let (_, value) = details.find(|(name, _)| *name == "sqlstate")?;
    value.as_str()
}

/// Whether a pooler refused our settings, which it does not know.
pub(super) fn refuses_settings(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::PROTOCOL_VIOLATION || *code == SqlState::FEATURE_NOT_SUPPORTED
    })
}

fn from_server(answer: &DbError, server: &str) -> Error {
    let sqlstate = answer.code().code();
    let (code, message) = meaning(sqlstate);
    let message = message.replace("{server}", server);
    let error = Error::new(code, message).detail("sqlstate", sqlstate);
    if text_is_harmless(sqlstate) {
        error.cause(answer.message())
    } else {
        error
    }
}

fn meaning(sqlstate: &str) -> (ErrorCode, &'static str) {
    use ErrorCode::*;
    match sqlstate {
        "42P01" => (
            InvalidArgument,
            "The tables for locks do not exist: create them once with setupSchema(), or with npx syncguard schema --url postgres://… --apply",
        ),
        "42703" => (
            InvalidArgument,
            "The tables for locks lack a column: run setupSchema() with the same options, or npx syncguard schema --apply (with --holder-labels if holderLabel is used)",
        ),
        "42501" => (
            AuthFailed,
            "The PostgreSQL user may not do this: it needs SELECT, INSERT, UPDATE and DELETE on the tables, EXECUTE on the functions of advisory locks (and CREATE on the schema for setupSchema)",
        ),
        "3D000" => (
            InvalidArgument,
            "The database does not exist on {server}: check its name in the URL or the options",
        ),
        "3F000" => (
            InvalidArgument,
            "The schema of the tables does not exist: create it first",
        ),
        "25006" => (
            Internal,
            "{server} is read-only, such as a standby: target_session_attrs=read-write finds the primary among several hosts",
        ),
        "57014" => (
            NetworkTimeout,
            "{server} did not finish the operation in time",
        ),
        "55P03" => (
            NetworkTimeout,
            "Another session of {server} holds a lock that the operation needs, and did not release it in time: pg_locks shows which",
        ),
        "57P01" | "57P02" | "57P03" => {
            (ServiceUnavailable, "{server} is shutting down or starting")
        }
        "40001" | "40P01" | "40003" => (
            ServiceUnavailable,
            "{server} gave up the transaction because of another one: try again",
        ),
        _ => match sqlstate.get(..2).unwrap_or_default() {
            "08" => (ServiceUnavailable, "The connection to {server} failed"),
            "28" => (AuthFailed, "{server} refused the login"),
            "53" => (RateLimited, "{server} has too few resources at the moment"),
            "22" | "23" | "42" => (
                InvalidArgument,
                "{server} refused the data or the statement",
            ),
            _ => (Internal, "{server} reported an error"),
        },
    }
}

fn text_is_harmless(sqlstate: &str) -> bool {
    matches!(sqlstate, "42501" | "42P01" | "42703")
        || matches!(
            sqlstate.get(..2).unwrap_or_default(),
            "08" | "25" | "28" | "3D" | "3F" | "53" | "57"
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ErrorCode::*;

    #[test]
    fn sqlstates() {
        for (sqlstate, code) in [
            ("08006", ServiceUnavailable),
            ("08P01", ServiceUnavailable),
            ("57P01", ServiceUnavailable),
            ("57P02", ServiceUnavailable),
            ("57P03", ServiceUnavailable),
            ("40001", ServiceUnavailable),
            ("40P01", ServiceUnavailable),
            ("40003", ServiceUnavailable),
            ("28P01", AuthFailed),
            ("28000", AuthFailed),
            ("42501", AuthFailed),
            ("53300", RateLimited),
            ("53200", RateLimited),
            ("57014", NetworkTimeout),
            ("22003", InvalidArgument),
            ("23505", InvalidArgument),
            ("42601", InvalidArgument),
            ("42P01", InvalidArgument),
            ("XX000", Internal),
            ("P0001", Internal),
            ("55P03", NetworkTimeout),
            ("", Internal),
        ] {
            assert_eq!(meaning(sqlstate).0, code, "{sqlstate}");
        }
    }

    #[test]
    fn texts_about_values_are_not_passed_on() {
        for sqlstate in ["22P02", "23505", "42601", "XX000", "P0001"] {
            assert!(!text_is_harmless(sqlstate), "{sqlstate}");
        }
    }
}
