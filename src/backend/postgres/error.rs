//! What the driver's errors mean to a caller.
//!
//! The server's texts are passed on only where they cannot contain a key or a lockId: its DETAIL
//! often does, and so do complaints about values and syntax.

use std::error::Error as _;

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::error::{Error, ErrorCode};

/// `server` is who was asked, such as "PostgreSQL at localhost:5432".
pub(super) fn from_driver(error: &tokio_postgres::Error, server: &str) -> Error {
    if let Some(answer) = error.as_db_error() {
        return from_server(answer, server);
    }
    let cause = error.source().map(ToString::to_string);
    // The driver keeps the kind of its errors to itself, apart from this text.
    let mapped = match error.to_string().as_str() {
        "connection closed" | "error communicating with the server" => {
            Error::unavailable(format!("The connection to {server} was lost"))
        }
        "error connecting to server" => {
            Error::unavailable(format!("{server} could not be reached"))
        }
        "error performing TLS handshake" => {
            Error::unavailable(format!("A TLS connection to {server} could not be made"))
        }
        // The latter: the server wants a password and none was given.
        "authentication error" | "invalid configuration" => Error::new(
            ErrorCode::AuthFailed,
            format!("{server} does not let us in"),
        ),
        _ => return Error::internal(format!("{server} answered in an unexpected way")),
    };
    match cause {
        Some(cause) => mapped.cause(cause),
        None => mapped,
    }
}

/// The error of a request that was sent: the server's `ERROR` means that it rolled the transaction
/// back; after anything else the commit may have happened.
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

/// Whether the connection can be used again after this error of a request.
pub(super) fn keeps_connection(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|answer| {
        answer.parsed_severity() == Some(Severity::Error)
            // The server became a standby: a new connection may find the new primary.
            && *answer.code() != SqlState::READ_ONLY_SQL_TRANSACTION
    })
}

/// A statement that we prepared is not there, or is there twice: the session is not our own.
pub(super) fn session_is_shared(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::INVALID_SQL_STATEMENT_NAME || *code == SqlState::DUPLICATE_PSTATEMENT
    })
}

/// The role may not do it.
pub(super) fn is_forbidden(error: &Error) -> bool {
    let forbidden = SqlState::INSUFFICIENT_PRIVILEGE.code();
    error.details.iter().any(|(_, value)| value == forbidden)
}

/// A pooler that does not know our settings refuses them.
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
            "The tables for locks do not exist: run setupSchema() once, or its SQL by hand",
        ),
        "42703" => (
            InvalidArgument,
            "The tables for locks lack a column: they were not made by setupSchema()",
        ),
        "42501" => (
            AuthFailed,
            "The PostgreSQL user may not do this: it needs SELECT, INSERT, UPDATE and DELETE on both tables (and CREATE on the schema for setupSchema)",
        ),
        "3D000" => (InvalidArgument, "The PostgreSQL database does not exist"),
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
            ("55P03", Internal),
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
