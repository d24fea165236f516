//! Turns errors of Redis, and of connections to it, into errors of this package.
//!
//! The text of a server's error may contain a key or an argument. So only its code, which is the first
//! word, becomes part of our error.

use std::io;

use redis::ServerError;

use super::config::Node;
use crate::backend::unreachable::{Peer, Reason, Settings, and_says};
use crate::error::{Error, ErrorCode};
use crate::lock::fence;

/// Converts an error that the server answered. The request had no effect.
pub(super) fn from_server(error: &ServerError) -> Error {
    from_code(code_of(error))
}

/// Returns the code of an error. Redis before version 7 wraps the errors of commands in a script, so
/// that the outer code is always `ERR`.
pub(super) fn code_of(error: &ServerError) -> &str {
    match error.code() {
        "ERR" => wrapped_code(error.details().unwrap_or_default()),
        code => code,
    }
}

/// Returns the error for a code of Redis, or for one of ours.
pub(super) fn from_code(code: &str) -> Error {
    let (kind, message) = match code {
        "NOAUTH" | "WRONGPASS" => (
            ErrorCode::AuthFailed,
            "Redis refused the credentials: check username and password",
        ),
        "NOPERM" => (
            ErrorCode::AuthFailed,
            "The Redis user lacks a permission: grant EVALSHA, EVAL, GET, SET, DEL, INCR, DECR and TIME, and SCAN and GETRANGE to list locks, on the keys under keyPrefix",
        ),
        "WRONGTYPE" => (
            ErrorCode::InvalidArgument,
            "A key of this lock holds another type of value: something else writes under keyPrefix",
        ),
        "CROSSSLOT" => (
            ErrorCode::InvalidArgument,
            "The server is part of a Redis Cluster: pass the cluster's nodes, or give keyPrefix a {hash tag}",
        ),
        "SYNTAX" | "INVALID" => (ErrorCode::InvalidArgument, "Redis refused the request"),
        "DBINDEX" => (
            ErrorCode::InvalidArgument,
            "The server does not have this database number",
        ),
        "DENIED" => (
            ErrorCode::AuthFailed,
            "The Redis server is in protected mode and accepts connections from its own host only: give it a password, or turn protected-mode off",
        ),
        "SGDATA" => (
            ErrorCode::Internal,
            "The value under this key is not a lock: something else writes under keyPrefix",
        ),
        "SGFENCE" => return fence::overflow(),
        "LOADING" => (
            ErrorCode::ServiceUnavailable,
            "The Redis server is still loading its data",
        ),
        "READONLY" => (
            ErrorCode::ServiceUnavailable,
            "The Redis server is a replica and accepts no writes",
        ),
        "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" | "MOVED" | "ASK" => (
            ErrorCode::ServiceUnavailable,
            "The Redis deployment is being reconfigured, or is incomplete",
        ),
        "MISCONF" | "NOREPLICAS" => (
            ErrorCode::ServiceUnavailable,
            "The Redis server accepts no writes while it cannot persist or replicate them",
        ),
        // This is no quota: the server answers nobody until that script ends, and then everybody.
        "BUSY" | "UNKILLABLE" => (
            ErrorCode::ServiceUnavailable,
            "The Redis server is busy with a slow script",
        ),
        // The next two are quotas of the server: more requests make it worse, and waiting may not help.
        "OOM" => (
            ErrorCode::RateLimited,
            "The Redis server is at its memory limit (maxmemory) and accepts no new locks. Locks that are held can still be extended and released. Free memory, or raise the limit",
        ),
        "MAXCLIENTS" => (
            ErrorCode::RateLimited,
            "The Redis server is at its limit of connections",
        ),
        _ => (ErrorCode::Internal, "Redis answered with an error"),
    };
    Error::new(kind, message).cause(code)
}

/// Part of the error of a script that asked for a key whose slot is elsewhere, or is being moved. The
/// script did nothing.
const NOT_HERE: &str = "access a non local key";

/// Returns the code that an `ERR` wraps.
///
/// The wrapped error follows the place in the script, which may be there twice. Some errors keep the
/// `-` of the protocol: `Error running script (call to f_…): @user_script:7: @user_script: 7: -READONLY
/// You can't write against a read only replica.`
fn wrapped_code(details: &str) -> &str {
    const WRAPPED: [&str; 14] = [
        "OOM",
        "WRONGTYPE",
        "READONLY",
        "NOPERM",
        "NOAUTH",
        "MISCONF",
        "NOREPLICAS",
        "LOADING",
        "MASTERDOWN",
        "CLUSTERDOWN",
        "TRYAGAIN",
        "MOVED",
        "ASK",
        "BUSY",
    ];
    const TEXTS: [(&str, &str); 8] = [
        ("max number of clients", "MAXCLIENTS"),
        ("invalid password", "WRONGPASS"),
        ("DB index is out of range", "DBINDEX"),
        ("SELECT is not allowed in cluster mode", "DBINDEX"),
        ("would overflow", "SGFENCE"),
        (NOT_HERE, "TRYAGAIN"),
        // Redis 6, and Redis 7.
        ("The user executing the script can't", "NOPERM"),
        ("ACL failure in script", "NOPERM"),
    ];
    let code_in = |part: &str| {
        let word = part.trim_start_matches('-').split(' ').next();
        WRAPPED.into_iter().find(|code| word == Some(code))
    };
    TEXTS
        .iter()
        .find(|(text, _)| details.contains(text))
        .map(|(_, code)| *code)
        .or_else(|| details.split(": ").find_map(code_in))
        .unwrap_or("ERR")
}

/// Explains that the connection to `node` broke. Requests that were sent may have taken effect.
pub(super) fn broken(node: &Node, cause: &io::Error) -> Error {
    refused_by_tls(node, cause)
        .unwrap_or_else(|| lost().cause(cause))
        .outcome_unknown()
}

/// The request may have taken effect, because its answer cannot be read.
pub(super) fn not_redis() -> Error {
    Error::internal("The server's answer is not of the Redis protocol").outcome_unknown()
}

pub(super) fn lost() -> Error {
    Error::unavailable("The connection to Redis was lost")
}

/// Whether the server refused a password because it has none. Other clients ignore that, and so do we.
pub(super) fn no_password_needed(error: &ServerError) -> bool {
    let details = error.details().unwrap_or_default();
    details.contains("without any password configured") || details.contains("no password is set")
}

/// Converts the refusal of a server that was asked about its cluster.
pub(super) fn not_a_cluster(error: &ServerError) -> Error {
    if error.code() == "ERR" {
        Error::invalid_argument(
            "The server is not part of a Redis Cluster: pass it as a plain server",
        )
    } else {
        from_server(error)
    }
}

pub(super) fn silent() -> Error {
    Error::timeout("The Redis server did not answer in time (operationTimeoutMs)")
}

pub(super) fn closed() -> Error {
    Error::unavailable("The Redis backend was closed")
}

pub(super) fn unexpected_reply() -> Error {
    Error::internal(
        "Redis answered with something unexpected: is there a proxy in between, or an eval() that is not that of a Redis client?",
    )
}

/// Converts an error line of the protocol, which came through a client of the program.
pub(crate) fn server_error(line: &str) -> Error {
    let line = line.lines().next().unwrap_or_default();
    match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()) {
        Ok(redis::Value::ServerError(error)) => from_server(&error),
        _ => unexpected_reply(),
    }
}

const SETTINGS: Settings = Settings {
    use_tls: "Use a rediss: URL or the option tls",
    use_no_tls: "Use a redis: URL without the option tls",
    trust_authority: "Pass the certificate of its authority as tls.ca",
    expect_name: "Connect by the name in its certificate, or pass that as tls.servername",
    present_certificate: "If it wants a client certificate, pass tls.cert and tls.key",
};

/// Explains why there is no connection. `tls` says whether TLS was in use at this stage.
pub(super) fn cannot_connect(node: &Node, tls: bool, reason: Reason) -> Error {
    let peer = Peer {
        name: &format!("the Redis server at {node}"),
        tls,
        settings: &SETTINGS,
    };
    peer.error(reason)
}

/// Explains an error of the system or of rustls while connecting.
pub(super) fn unreachable(node: &Node, tls: bool, cause: &io::Error) -> Error {
    cannot_connect(node, tls, Reason::of(cause)).cause(cause)
}

/// Explains an error of TLS that came in place of the server's first answer: with TLS 1.3 a server
/// refuses the client only after the handshake. None if the error is of another kind.
fn refused_by_tls(node: &Node, cause: &io::Error) -> Option<Error> {
    let reason = Reason::of(cause);
    let is_tls = matches!(
        reason,
        Reason::Certificate(_) | Reason::RefusedTls | Reason::NoCommonTls
    );
    is_tls.then(|| unreachable(node, true, cause))
}

/// Explains why the greeting of a connected server failed. The outcome is known, because a greeting
/// changes nothing.
pub(super) fn while_greeting(node: &Node, tls: bool, error: Error) -> Error {
    let explained = match error.code {
        _ if error.message.contains(&node.to_string()) => error,
        ErrorCode::ServiceUnavailable if error.outcome_unknown => {
            let reason = if tls { Reason::HungUp } else { Reason::Closed };
            Error {
                message: cannot_connect(node, false, reason).message,
                ..error
            }
        }
        ErrorCode::NetworkTimeout => Error {
            message: cannot_connect(node, false, Reason::Silent).message,
            ..error
        },
        // The server itself said what is wrong.
        _ => and_says(error, &format!("The server is at {node}")),
    };
    Error {
        outcome_unknown: false,
        ..explained
    }
}

/// Explains why none of several nodes could help. `error` is that of one of them.
pub(super) fn of_all(nodes: &[Node], error: Error) -> Error {
    let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    and_says(error, &format!("Tried: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(line: &str) -> (ErrorCode, Error) {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        let redis::Value::ServerError(error) = value else {
            panic!("not an error: {line}")
        };
        let error = from_server(&error);
        (error.code, error)
    }

    #[test]
    fn servers_of_all_ages() {
        use ErrorCode::*;
        for (line, expected) in [
            ("NOAUTH Authentication required.", AuthFailed),
            ("WRONGPASS invalid username-password pair", AuthFailed),
            ("ERR invalid password", AuthFailed),
            ("NOPERM this user has no permissions", AuthFailed),
            ("WRONGTYPE Operation against a key", InvalidArgument),
            (
                "ERR Error running script (call to f_1): @user_script:3: WRONGTYPE Operation",
                InvalidArgument,
            ),
            ("DENIED Redis is running in protected mode", AuthFailed),
            ("CROSSSLOT Keys in request don't hash", InvalidArgument),
            ("ERR DB index is out of range", InvalidArgument),
            ("LOADING Redis is loading", ServiceUnavailable),
            ("READONLY You can't write", ServiceUnavailable),
            ("CLUSTERDOWN Hash slot not served", ServiceUnavailable),
            ("MASTERDOWN Link with MASTER is down", ServiceUnavailable),
            ("TRYAGAIN Multiple keys request", ServiceUnavailable),
            ("MISCONF Redis is configured", ServiceUnavailable),
            ("BUSY Redis is busy", ServiceUnavailable),
            ("OOM command not allowed", RateLimited),
            (
                "ERR Error running script: @user_script: 1: -OOM command not allowed",
                RateLimited,
            ),
            (
                "ERR Error running script (call to f_6be4): @user_script:7: @user_script: 7: -READONLY You can't write against a read only replica. ",
                ServiceUnavailable,
            ),
            // Through the pcall of a batch.
            (
                "ERR @user_script: 7: -MISCONF Redis is configured to save RDB snapshots  ",
                ServiceUnavailable,
            ),
            (
                "ERR Error running script (call to f_6be4): @user_script:7: @user_script: 7: The user executing the script can't run this command or subcommand",
                AuthFailed,
            ),
            (
                "ERR wrong number of arguments for 'READONLY' command",
                Internal,
            ),
            ("ERR max number of clients reached", RateLimited),
            (
                "ERR Script attempted to access a non local key in a cluster node script: 0",
                ServiceUnavailable,
            ),
            ("SGDATA not a lock", Internal),
            ("SGFENCE counter", Internal),
            ("ERR increment or decrement would overflow", Internal),
            ("ERR anything", Internal),
            ("CUSTOM anything", Internal),
        ] {
            assert_eq!(code_of(line).0, expected, "{line}");
        }
    }

    #[test]
    fn what_the_server_says_is_not_repeated() {
        let (_, error) = code_of("ERR unknown command, with args beginning with: 'secret'");
        assert!(!format!("{error:?}").contains("secret"));
    }
}
