//! Maps gRPC codes to lock errors. The server's text is left out, because it may quote a document's name
//! and thus a key. An error of this side of the connection becomes the cause.

use std::error::Error as StdError;

use firestore::gcloud_sdk::error::{Error as SdkError, ErrorKind};
use firestore::gcloud_sdk::google::rpc;
use tonic::{Code, ConnectError, Status};

use crate::backend::backoff::is_away;
use crate::backend::unreachable::{Peer, Reason, Settings, chain};
use crate::error::{Error, ErrorCode};

const ELSEWHERE: &str = "There are no credentials in the options or in a file, so this program was assumed to run on Google Cloud";

const TOKEN_SERVER_SETTINGS: Settings = Settings {
    use_tls: "Use an https: URL for it",
    use_no_tls: "Is its URL right?",
    trust_authority: "Have this system trust its authority, or name that in SSL_CERT_FILE",
    expect_name: "Is its URL right?",
    present_certificate: "Is its URL right?",
};

/// Why a call failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing was written: a document changed after it was read.
    Changed,
    /// Nothing was written: the server aborted one of several colliding transactions.
    Contended,
    /// Nothing was written: the server is away, and may be back soon.
    Away(Error),
    Failed(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Failure {
    /// Returns the failure of a call that was not answered.
    pub(super) fn of(error: Error, may_have_written: bool) -> Self {
        // A server that does not speak Firestore's protocol writes nothing.
        if may_have_written && error.code != ErrorCode::InvalidArgument {
            Self::Failed(error.outcome_unknown())
        } else if is_away(&error) {
            Self::Away(error)
        } else {
            Self::Failed(error)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A call that writes nothing.
    Read,
    Commit,
}

/// Maps an error that the server sent.
pub(super) fn server_failure(kind: Kind, status: &Status, place: &str) -> Failure {
    match (kind, status.code()) {
        (_, Code::Aborted) => Failure::Contended,
        (Kind::Read, Code::Unavailable) => Failure::Away(lock_error(status, place)),
        (Kind::Read, _) => lock_error(status, place).into(),
        // These codes say that a precondition does not hold. If they mean something else, the read
        // that follows finds out.
        (Kind::Commit, Code::FailedPrecondition | Code::NotFound | Code::AlreadyExists) => {
            Failure::Changed
        }
        (
            Kind::Commit,
            Code::InvalidArgument
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::ResourceExhausted
            | Code::Unimplemented,
        ) => lock_error(status, place).into(),
        (Kind::Commit, _) => lock_error(status, place).outcome_unknown().into(),
    }
}

/// What failed on this side of the connection.
pub(super) enum Broken<'a> {
    NoToken(&'a SdkError),
    NotConnected,
    /// The connection was closed before the request was written to it.
    NotSent,
    Lost,
}

impl<'a> Broken<'a> {
    pub(super) fn of(status: &'a Status) -> Self {
        // gcloud-sdk's middleware boxes the error twice.
        if let Some(error) = find::<Box<SdkError>>(status) {
            Self::NoToken(error)
        } else if find::<ConnectError>(status).is_some() {
            Self::NotConnected
        } else if find::<hyper::Error>(status).is_some_and(hyper::Error::is_canceled) {
            Self::NotSent
        } else {
            Self::Lost
        }
    }
}

/// Returns the error of a call for which there was no access token. The text of Google's library is left
/// out, because it quotes answers of token servers.
///
/// `place`: see [`FirestoreConfig::place`](super::FirestoreConfig::place).
pub(super) fn no_token(error: &SdkError, place: &str) -> Error {
    let ErrorKind::Credentials(error) = error.kind() else {
        return no_credentials("Google's library cannot use them");
    };
    let text = if let Some(error) = find::<Error>(error) {
        // The metadata server's.
        format!("{error}. {ELSEWHERE}")
    } else if let Some(error) = find::<reqwest::Error>(error) {
        let host = error.url().map_or("", |url| url.authority());
        // The URL may contain a password.
        let host = host.rsplit('@').next().unwrap_or_default();
        token_server_failed(&format!("the token server {host}"), error).1
    } else {
        "Google's library got no access token with them".to_owned()
    };
    if error.is_transient() {
        Error::unavailable(format!("No access token for {place}. {text}"))
    } else {
        no_credentials(&text)
    }
}

/// Returns why a token server did not answer, as a reason and as a sentence without its full stop.
pub(super) fn token_server_failed(name: &str, error: &reqwest::Error) -> (Reason, String) {
    if let Some(status) = error.status() {
        let text = format!("{name} answered with the status {status}");
        return (Reason::Other, text);
    }
    let reason = match Reason::of(error) {
        Reason::Other if error.is_timeout() => Reason::Silent,
        reason => reason,
    };
    let peer = Peer {
        name,
        tls: error.url().is_some_and(|url| url.scheme() == "https"),
        settings: &TOKEN_SERVER_SETTINGS,
    };
    let text = peer.error(reason).message;
    (reason, text.trim_end_matches(['?', '.']).to_owned())
}

/// Returns the error for a gRPC status. `place`: see
/// [`FirestoreConfig::place`](super::FirestoreConfig::place).
pub(super) fn lock_error(status: &Status, place: &str) -> Error {
    let error = match status.code() {
        Code::PermissionDenied => Error::new(
            ErrorCode::AuthFailed,
            format!("{place} denies these credentials access to the database"),
        ),
        Code::Unauthenticated => Error::new(
            ErrorCode::AuthFailed,
            format!("{place} does not accept the credentials"),
        ),
        Code::NotFound => Error::invalid_argument(format!(
            "The database or project does not exist at {place}: check projectId and databaseId"
        )),
        Code::FailedPrecondition => Error::invalid_argument(format!(
            "{place} cannot run this on the database: it must be in Native mode, and the fields lockId and holderIds of the lock collection must be indexed"
        )),
        Code::InvalidArgument | Code::Unimplemented => {
            Error::invalid_argument(format!("{place} refused the request as invalid"))
        }
        // This side reports it for an answer that is larger than any lock document.
        Code::OutOfRange => Error::internal(format!("{place} sent an answer that is too large")),
        Code::ResourceExhausted => Error::new(
            ErrorCode::RateLimited,
            format!("{place} refused the request: a quota or rate limit is reached"),
        ),
        Code::DeadlineExceeded => {
            Error::unavailable(format!("{place} could not answer within its own deadline"))
        }
        Code::Aborted => contention(),
        _ => Error::unavailable(format!("{place} is not available")),
    };
    let error = error.detail("grpcCode", code_name(status.code()));
    match status.source() {
        Some(source) => error.cause(chain(source)),
        None => error,
    }
}

/// The error of an operation that used up its retries.
pub(super) fn contention() -> Error {
    Error::unavailable("Too much contention on the documents of this lock: try again later")
}

/// Returns the error for credentials that cannot be used. `why` is a sentence without its full stop and
/// without any part of the credentials.
pub(super) fn no_credentials(why: &str) -> Error {
    Error::new(
        ErrorCode::AuthFailed,
        format!(
            "No usable Google credentials. {why}. Pass credentials or keyFilename, or set up application default credentials: GOOGLE_APPLICATION_CREDENTIALS, or `gcloud auth application-default login`"
        ),
    )
}

fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        source = error.source();
    }
    None
}

pub(super) fn code_name(code: Code) -> &'static str {
    rpc::Code::try_from(code as i32).map_or("UNKNOWN", |code| code.as_str_name())
}
