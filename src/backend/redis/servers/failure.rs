//! The errors of servers that cannot be reached.

use std::io;

use crate::backend::redis::config::Node;
use crate::backend::unreachable::{Peer, Reason, Settings, and_says};
use crate::error::{Error, ErrorCode};

const SETTINGS: Settings = Settings {
    use_tls: "Use a rediss: URL or the option tls",
    use_no_tls: "Use a redis: URL without the option tls",
    trust_authority: "Pass the certificate of its authority as tls.ca",
    expect_name: "Connect by the name in its certificate, or pass that as tls.servername",
    present_certificate: "If it wants a client certificate, pass tls.cert and tls.key",
};

/// Explains why there is no connection. `tls` says whether TLS was in use at this stage.
pub(crate) fn cannot_connect(node: &Node, tls: bool, reason: Reason) -> Error {
    let peer = Peer {
        name: &format!("the Redis server at {node}"),
        tls,
        settings: &SETTINGS,
    };
    peer.error(reason)
}

/// Explains an error of the system or of rustls.
pub(super) fn from_io(node: &Node, tls: bool, cause: &io::Error) -> Error {
    cannot_connect(node, tls, Reason::of(cause)).cause(cause)
}

/// Explains an error of TLS that came in place of the server's first answer: with TLS 1.3 a server
/// refuses the client only after the handshake. None if the error is of another kind.
pub(crate) fn refused_by_tls(node: &Node, cause: &io::Error) -> Option<Error> {
    let reason = Reason::of(cause);
    let is_tls = matches!(
        reason,
        Reason::Certificate(_) | Reason::RefusedTls | Reason::NoCommonTls
    );
    is_tls.then(|| from_io(node, true, cause))
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
