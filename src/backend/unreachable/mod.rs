//! Why a server cannot be reached, as an error that a person can act on.
//!
//! A backend describes its server as a [`Peer`], turns whatever its driver reported into a
//! [`Reason`] and asks the peer for the error: its message names the server's address and the
//! reason, and says what to do. [`gave_up_after`] adds how long it was tried.
//!
//! [`probe`] finds out what an endpoint speaks if a handshake failed without saying why.

pub mod probe;

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};

use crate::error::{Error, ErrorCode};

/// A server as its users know it.
#[derive(Debug, Clone, Copy)]
pub struct Peer<'a> {
    /// The server with its address, as in "Cannot connect to {name}". Never with credentials.
    pub name: &'a str,
    /// Whether we speak TLS to it.
    pub tls: bool,
    pub settings: &'a Settings,
}

/// What users of a backend can change about TLS, each as a sentence without its full stop.
#[derive(Debug)]
pub struct Settings {
    pub use_tls: &'static str,
    pub use_no_tls: &'static str,
    pub trust_authority: &'static str,
    pub expect_name: &'static str,
    pub present_certificate: &'static str,
}

/// Why a connection could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Refused,
    HostNotFound,
    /// The name has addresses, but none that may be used.
    NoAddress,
    NoRoute,
    /// Nothing came back at all: not even the TCP handshake was finished.
    TimedOut,
    /// The connection was made, but no answer came.
    Silent,
    /// The server closed the connection before the handshake was finished.
    Closed,
    /// The handshake was finished, and the server closed the connection before it answered.
    HungUp,
    NoSocketFile,
    NoPermission,
    /// Not an address that can be dialled, such as a socket path that is too long.
    BadAddress,
    /// It speaks TLS, and we do not.
    SpeaksTls,
    /// We speak TLS, and it does not.
    SpeaksNoTls,
    Certificate(CertificateProblem),
    /// It ended the TLS handshake, most likely for want of a client certificate.
    RefusedTls,
    /// No version or cipher of TLS is common to both sides.
    NoCommonTls,
    /// Any other reason. The cause has it.
    Other,
}

/// What is wrong with the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateProblem {
    UnknownAuthority,
    WrongName,
    Expired,
    NotYetValid,
    Other,
}

impl Reason {
    /// Looks for a reason in an error and its causes.
    pub fn of(error: &(dyn StdError + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            let found = if let Some(tls) = error.downcast_ref() {
                Self::of_tls(tls)
            } else if let Some(io) = error.downcast_ref() {
                Self::of_io(io)
            } else {
                Self::Other
            };
            if found != Self::Other {
                return found;
            }
            next = error.source();
        }
        Self::Other
    }

    fn of_io(error: &io::Error) -> Self {
        // Its own source() would be the inner error's source, not the inner error.
        if let Some(inner) = error.get_ref() {
            let found = Self::of(inner);
            if found != Self::Other {
                return found;
            }
        }
        if is_failed_lookup(error) {
            return Self::HostNotFound;
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotConnected
            | io::ErrorKind::UnexpectedEof => Self::Closed,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown => Self::NoRoute,
            io::ErrorKind::AddrNotAvailable => Self::NoAddress,
            io::ErrorKind::NotFound => Self::NoSocketFile,
            io::ErrorKind::PermissionDenied => Self::NoPermission,
            io::ErrorKind::InvalidInput => Self::BadAddress,
            _ => Self::Other,
        }
    }

    fn of_tls(error: &rustls::Error) -> Self {
        match error {
            // The server sent something that is no TLS record.
            rustls::Error::InvalidMessage(_) => Self::SpeaksNoTls,
            rustls::Error::InvalidCertificate(problem) => Self::Certificate(match problem {
                CertificateError::UnknownIssuer => CertificateProblem::UnknownAuthority,
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => CertificateProblem::WrongName,
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    CertificateProblem::Expired
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    CertificateProblem::NotYetValid
                }
                _ => CertificateProblem::Other,
            }),
            rustls::Error::AlertReceived(AlertDescription::ProtocolVersion)
            | rustls::Error::PeerIncompatible(_) => Self::NoCommonTls,
            rustls::Error::AlertReceived(_) => Self::RefusedTls,
            _ => Self::Other,
        }
    }

    /// Whether another attempt may succeed without a change of settings.
    pub fn may_pass(self) -> bool {
        self.code() == ErrorCode::ServiceUnavailable
    }

    fn code(self) -> ErrorCode {
        match self {
            Self::Refused
            | Self::HostNotFound
            | Self::NoAddress
            | Self::NoRoute
            | Self::TimedOut
            | Self::Closed
            | Self::HungUp
            | Self::NoSocketFile
            | Self::NoPermission
            | Self::Other => ErrorCode::ServiceUnavailable,
            Self::Silent => ErrorCode::NetworkTimeout,
            Self::BadAddress | Self::SpeaksTls | Self::SpeaksNoTls | Self::NoCommonTls => {
                ErrorCode::InvalidArgument
            }
            Self::Certificate(_) | Self::RefusedTls => ErrorCode::AuthFailed,
        }
    }
}

/// Name lookups fail with an error that has no kind of its own.
fn is_failed_lookup(error: &io::Error) -> bool {
    // WSAHOST_NOT_FOUND, WSATRY_AGAIN, WSANO_RECOVERY, WSANO_DATA.
    if cfg!(windows) && matches!(error.raw_os_error(), Some(11001..=11004)) {
        return true;
    }
    let text = error.to_string();
    [
        "failed to lookup address information",
        "could not resolve to any address",
    ]
    .iter()
    .any(|start| text.starts_with(start))
}

impl Peer<'_> {
    /// Returns the error for this reason. The driver's own error belongs into its cause.
    pub fn error(&self, reason: Reason) -> Error {
        let (what, advice) = self.words(reason);
        let message = format!("Cannot connect to {}: {what}. {advice}", self.name);
        Error::new(reason.code(), message)
    }

    /// Returns the error for what a driver or the system reported, with that as its cause.
    pub fn error_from(&self, cause: &(dyn StdError + 'static)) -> Error {
        self.error(Reason::of(cause)).cause(chain(cause))
    }

    fn words(&self, reason: Reason) -> (&'static str, &'static str) {
        use CertificateProblem::*;
        const CHECK_ADDRESS: &str = "Is the server running, and is the address right?";
        const CHECK_NETWORK: &str = "Check the address, firewalls and the network in between";
        let settings = self.settings;
        match reason {
            Reason::Refused => ("connection refused", CHECK_ADDRESS),
            Reason::HostNotFound => (
                "host not found",
                "Check the host name, and that this machine can resolve it",
            ),
            Reason::NoAddress => (
                "the host has no usable address",
                "Check its name, and which version of IP it is reached by",
            ),
            Reason::NoRoute => ("the network has no route to it", CHECK_NETWORK),
            Reason::TimedOut => ("timed out", CHECK_NETWORK),
            Reason::Silent if self.tls => (
                "it accepts connections but does not answer the TLS handshake",
                "Does this port speak TLS, and is the server overloaded or suspended?",
            ),
            Reason::Silent => (
                "it accepts connections but does not answer",
                "Is this the right port, and is the server overloaded or suspended?",
            ),
            Reason::Closed if self.tls => (
                "it closed the connection during the TLS handshake",
                "Does this port speak TLS?",
            ),
            Reason::Closed => (
                "it closed the connection during the handshake",
                "Is this a TLS port, or the port of something else?",
            ),
            Reason::HungUp => (
                "it closed the connection before it answered",
                "Is this the right port, and does the server accept connections from here?",
            ),
            Reason::NoSocketFile => (
                "there is no such socket file",
                "Is the server running, and is the path right?",
            ),
            Reason::NoPermission => (
                "permission denied",
                "Check who may use the socket file, and what restricts this process",
            ),
            Reason::BadAddress => ("not a valid address", "Check the host or the path"),
            Reason::SpeaksTls => (
                "this is a TLS port, and the connection is made without TLS",
                settings.use_tls,
            ),
            Reason::SpeaksNoTls => (
                "this is not a TLS port, and the connection is made with TLS",
                settings.use_no_tls,
            ),
            Reason::Certificate(UnknownAuthority) => (
                "its certificate is not trusted, as its authority is unknown",
                settings.trust_authority,
            ),
            Reason::Certificate(WrongName) => {
                ("its certificate is for another name", settings.expect_name)
            }
            Reason::Certificate(Expired) => (
                "its certificate is not trusted, as it has expired",
                "Renew it, or check the clock of this machine",
            ),
            Reason::Certificate(NotYetValid) => (
                "its certificate is not trusted, as it is not valid yet",
                "Check the clocks of both machines",
            ),
            Reason::Certificate(Other) => (
                "its certificate is not trusted",
                "The cause says what is wrong with it",
            ),
            Reason::RefusedTls => ("it refused the TLS handshake", settings.present_certificate),
            Reason::NoCommonTls => (
                "no version or cipher of TLS is common to both sides",
                "Let the server offer TLS 1.2 or 1.3",
            ),
            Reason::Other => ("the connection failed", CHECK_ADDRESS),
        }
    }
}

/// Adds to an error how long the operation was tried, and the option that set the limit.
pub fn gave_up_after(error: Error, time: Duration, option: Option<&str>) -> Error {
    let limit = option.map_or_else(String::new, |option| format!(" ({option})"));
    and_says(error, &format!("Gave up after {}{limit}", readable(time)))
}

/// Adds to an error how long the operation has been tried so far.
pub fn trying_for(error: Error, time: Duration) -> Error {
    and_says(error, &format!("Trying for {}", readable(time)))
}

/// Adds a sentence to the message of an error.
pub fn and_says(error: Error, sentence: &str) -> Error {
    let end = if error.message.ends_with('?') {
        ""
    } else {
        "."
    };
    Error {
        message: format!("{}{end} {sentence}", error.message),
        ..error
    }
}

fn readable(time: Duration) -> String {
    match time.as_millis() {
        ms @ 0..1000 => format!("{ms} ms"),
        ms => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
    }
}

/// Returns an error's text, followed by those of its causes that it does not contain.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
