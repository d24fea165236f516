use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::probe::{answer, speaks_tls};
use super::*;
use crate::backend::tls::{Tls, TlsOptions};

const SETTINGS: Settings = Settings {
    use_tls: "Use TLS",
    use_no_tls: "Use no TLS",
    trust_authority: "Set ca",
    expect_name: "Set servername",
    present_certificate: "Set cert and key",
};

const PEER: Peer<'_> = Peer {
    name: "the server at localhost:1",
    tls: false,
    settings: &SETTINGS,
};

const ALL: [Reason; 21] = {
    use CertificateProblem::*;
    use Reason::*;
    [
        Refused,
        HostNotFound,
        NoAddress,
        NoRoute,
        TimedOut,
        Silent,
        Closed,
        HungUp,
        NoSocketFile,
        NoPermission,
        BadAddress,
        SpeaksTls,
        SpeaksNoTls,
        Certificate(UnknownAuthority),
        Certificate(WrongName),
        Certificate(Expired),
        Certificate(NotYetValid),
        Certificate(CertificateProblem::Other),
        RefusedTls,
        NoCommonTls,
        Reason::Other,
    ]
};

/// Answers every connection with these bytes and closes it.
async fn answering(bytes: &'static [u8]) -> SocketAddr {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1 << 12]).await;
            let _ = stream.write_all(bytes).await;
        }
    });
    address
}

#[tokio::test]
async fn reasons_of_real_failures() {
    let free = {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        listener.local_addr().unwrap()
    };
    let refused = TcpStream::connect(free).await.unwrap_err();
    assert_eq!(Reason::of(&refused), Reason::Refused);
    let unknown = TcpStream::connect("syncguard.invalid:1").await.unwrap_err();
    assert_eq!(Reason::of(&unknown), Reason::HostNotFound, "{unknown}");
    #[cfg(unix)]
    {
        use tokio::net::UnixStream;
        let missing = UnixStream::connect("/nowhere/socket").await.unwrap_err();
        assert_eq!(Reason::of(&missing), Reason::NoSocketFile);
        let too_long = UnixStream::connect("/x".repeat(200)).await.unwrap_err();
        assert_eq!(Reason::of(&too_long), Reason::BadAddress);
    }
}

#[tokio::test]
async fn reasons_of_real_tls_handshakes() {
    let tls = Tls::new(TlsOptions {
        reject_unauthorized: Some(false),
        ..TlsOptions::default()
    })
    .unwrap();
    let connector = TlsConnector::from(tls.config().await.unwrap());
    for (bytes, reason) in [
        (b"-ERR no such command\r\n".as_slice(), Reason::SpeaksNoTls),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Reason::SpeaksNoTls),
        (b"", Reason::Closed),
        (b"\x15\x03\x03\x00\x02\x02\x28", Reason::RefusedTls),
        (b"\x15\x03\x03\x00\x02\x02\x46", Reason::NoCommonTls),
    ] {
        let stream = TcpStream::connect(answering(bytes).await).await.unwrap();
        let name = tls.server_name("localhost").unwrap();
        let failure = connector.connect(name, stream).await.unwrap_err();
        assert_eq!(Reason::of(&failure), reason, "{failure}");
    }
}

#[tokio::test]
async fn a_tls_port_is_told_from_others() {
    for (bytes, tls) in [
        (b"\x15\x03\x03\x00\x02\x02\x28".as_slice(), true),
        (b"\x16\x03\x03\x00\x7a\x02", true),
        (b"-ERR no such command\r\n", false),
        (b"", false),
        (b"\x16", false),
    ] {
        let stream = TcpStream::connect(answering(bytes).await).await.unwrap();
        assert_eq!(speaks_tls(stream, "localhost").await, tls, "{bytes:?}");
    }
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = silent.local_addr().unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    assert!(!speaks_tls(stream, "not a host name").await);
    let stream = TcpStream::connect(answering(b"+PONG\r\n").await)
        .await
        .unwrap();
    assert_eq!(answer(stream, b"PING\r\n").await, Some(*b"+"));
}

#[test]
fn reasons_are_found_inside_of_other_errors() {
    let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
    let problem = rustls::Error::InvalidCertificate(CertificateError::Expired);
    let expired = Reason::Certificate(CertificateProblem::Expired);
    for (error, reason) in [
        (io::Error::other(refused()), Reason::Refused),
        (io::Error::other(io::Error::other(problem)), expired),
        (
            // The kind that rustls gives to a connection that ends too early.
            io::Error::new(io::ErrorKind::UnexpectedEof, "tls handshake eof"),
            Reason::Closed,
        ),
        (io::Error::other("something"), Reason::Other),
        (
            io::Error::new(io::ErrorKind::TimedOut, "something"),
            Reason::TimedOut,
        ),
    ] {
        assert_eq!(Reason::of(&error), reason, "{error:?}");
    }
}

#[test]
fn certificates() {
    use CertificateError as E;
    use CertificateProblem as P;
    for (error, problem) in [
        (E::UnknownIssuer, P::UnknownAuthority),
        (E::NotValidForName, P::WrongName),
        (E::Expired, P::Expired),
        (E::NotValidYet, P::NotYetValid),
        (E::Revoked, P::Other),
    ] {
        let error = rustls::Error::InvalidCertificate(error);
        assert_eq!(Reason::of(&error), Reason::Certificate(problem));
    }
}

#[test]
fn messages_say_where_why_and_what_to_do() {
    for reason in ALL {
        for tls in [false, true] {
            let error = Peer { tls, ..PEER }.error(reason);
            let start = "Cannot connect to the server at localhost:1: ";
            let rest = error.message.strip_prefix(start).unwrap();
            let (what, advice) = rest.split_once(". ").unwrap();
            assert!(!what.is_empty() && !advice.is_empty());
            assert!(!rest.contains("..") && !rest.ends_with('.'), "{rest}");
            assert_eq!(
                reason.may_pass(),
                error.code == ErrorCode::ServiceUnavailable
            );
        }
    }
    let error = PEER.error_from(&io::Error::from(io::ErrorKind::ConnectionRefused));
    assert_eq!(
        gave_up_after(
            error.clone(),
            Duration::from_millis(5049),
            Some("connectTimeoutMs")
        )
        .message,
        "Cannot connect to the server at localhost:1: connection refused. \
         Is the server running, and is the address right? Gave up after 5.0 s (connectTimeoutMs)"
    );
    assert_eq!(error.said(), "connection refused");
    let error = trying_for(PEER.error(Reason::SpeaksTls), Duration::from_millis(12));
    assert!(
        error
            .message
            .ends_with("without TLS. Use TLS. Trying for 12 ms")
    );
}

#[test]
fn what_waiting_cannot_mend_is_not_retried() {
    for reason in ALL {
        let mends_itself = !matches!(
            reason,
            Reason::Silent
                | Reason::BadAddress
                | Reason::SpeaksTls
                | Reason::SpeaksNoTls
                | Reason::Certificate(_)
                | Reason::RefusedTls
                | Reason::NoCommonTls
        );
        assert_eq!(reason.may_pass(), mends_itself, "{reason:?}");
    }
}
