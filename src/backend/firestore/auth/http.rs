//! One request to a token server, over a connection of its own: they are few and far between.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderMap, HeaderValue, PROXY_AUTHORIZATION};
use hyper::{Request, StatusCode, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::token::TokenError;
use crate::backend::firestore::error::chain;
use crate::backend::tls;

const LIMIT: Duration = Duration::from_secs(10);
const MAX_BODY: usize = 1 << 20;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

type Failure = Box<dyn std::error::Error + Send + Sync>;

pub(super) struct Answer {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// An answer that is not a success is an error. Proxies are those of the environment.
pub(super) async fn send(request: Request<String>) -> Result<Answer, TokenError> {
    let host = request.uri().host().unwrap_or_default().to_owned();
    let answered = timeout(LIMIT, exchange(request, &Matcher::from_env())).await;
    let (status, answer) = answered
        .map_err(|_| TokenError::passing(format!("{host} did not answer")))?
        .map_err(|error| {
            let cause = chain(error.as_ref());
            TokenError::passing(format!("{host} cannot be asked: {cause}"))
        })?;
    if status.is_success() {
        return Ok(answer);
    }
    let text = format!("{host} answered {status}");
    let passing = status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
        );
    Err(if passing {
        TokenError::passing(text)
    } else {
        TokenError::lasting(text)
    })
}

/// The system's roots, or Mozilla's where it has none, as in slim container images.
pub(in crate::backend::firestore) async fn trusted_roots() -> RootCertStore {
    let roots = tokio::task::spawn_blocking(tls::system_roots).await;
    roots.ok().and_then(Result::ok).unwrap_or_else(|| {
        let roots = webpki_roots::TLS_SERVER_ROOTS.to_vec();
        RootCertStore { roots }
    })
}

async fn exchange(
    mut request: Request<String>,
    proxies: &Matcher,
) -> Result<(StatusCode, Answer), Failure> {
    let target = request.uri().clone();
    let proxy = proxies.intercept(&target);
    let stream = match &proxy {
        Some(proxy) if is_tls(&target) => secure(tunnel(proxy, &target).await?, &target).await?,
        Some(proxy) => connect(proxy.uri()).await?,
        None => connect(&target).await?,
    };
    match proxy {
        // Only here does a proxy see the request, and needs to know where it goes.
        Some(proxy) if !is_tls(&target) => authorize(&mut request, &proxy),
        _ => {
            let path = target.path_and_query().map_or("/", |path| path.as_str());
            *request.uri_mut() = path.parse()?;
        }
    }
    let authority = target.authority().ok_or("no host")?;
    let headers = request.headers_mut();
    headers.insert(HOST, HeaderValue::try_from(authority.as_str())?);

    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let _driver = AbortOnDropHandle::new(tokio::spawn(connection));
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, MAX_BODY).collect().await?.to_bytes();
    let headers = parts.headers;
    Ok((parts.status, Answer { headers, body }))
}

async fn connect(to: &Uri) -> Result<Box<dyn Stream>, Failure> {
    let host = bare_host(to)?;
    let stream = Box::new(TcpStream::connect((host, port(to))).await?);
    match to.scheme_str() {
        Some("http") => Ok(stream),
        Some("https") => secure(stream, to).await,
        _ => Err("only http and https are spoken".into()),
    }
}

async fn secure(stream: Box<dyn Stream>, to: &Uri) -> Result<Box<dyn Stream>, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(trusted_roots().await)
        .with_no_client_auth();
    let name = ServerName::try_from(bare_host(to)?.to_owned())?;
    let connector = TlsConnector::from(Arc::new(config));
    Ok(Box::new(connector.connect(name, stream).await?))
}

/// A way through the proxy.
async fn tunnel(proxy: &Intercept, target: &Uri) -> Result<Box<dyn Stream>, Failure> {
    let host = target.host().ok_or("no host")?;
    let authority = format!("{host}:{}", port(target));
    let mut request = Request::connect(&authority).body(String::new())?;
    let headers = request.headers_mut();
    headers.insert(HOST, HeaderValue::try_from(&authority)?);
    authorize(&mut request, proxy);
    let stream = TokioIo::new(connect(proxy.uri()).await?);
    let (mut sender, connection) = http1::handshake(stream).await?;
    let _driver = AbortOnDropHandle::new(tokio::spawn(connection.with_upgrades()));
    let answer = sender.send_request(request).await?;
    if !answer.status().is_success() {
        return Err(format!("the proxy answered {}", answer.status()).into());
    }
    Ok(Box::new(TokioIo::new(hyper::upgrade::on(answer).await?)))
}

fn authorize(request: &mut Request<String>, proxy: &Intercept) {
    if let Some(authorization) = proxy.basic_auth() {
        let headers = request.headers_mut();
        headers.insert(PROXY_AUTHORIZATION, authorization.clone());
    }
}

fn is_tls(uri: &Uri) -> bool {
    uri.scheme_str() == Some("https")
}

fn port(uri: &Uri) -> u16 {
    let usual = if is_tls(uri) { 443 } else { 80 };
    uri.port_u16().unwrap_or(usual)
}

/// Without the brackets of an IPv6 address.
fn bare_host(uri: &Uri) -> Result<&str, Failure> {
    let host = uri.host().ok_or("no host")?;
    Ok(host.trim_start_matches('[').trim_end_matches(']'))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// The request that a proxy gets for `url`, and the first bytes after its answer.
    async fn seen_by_proxy(url: &str, reply: &str) -> (String, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://user:secret@{}", listener.local_addr().unwrap());
        let proxies = Matcher::builder().all(proxy).build();
        let request = Request::get(url).body(String::new()).unwrap();
        let asking = tokio::spawn(async move {
            let _ = exchange(request, &proxies).await;
        });
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(reply.as_bytes()).await.unwrap();
        let mut rest = vec![0; 3];
        let read = stream.read(&mut rest).await.unwrap();
        rest.truncate(read);
        drop(stream);
        asking.await.unwrap();
        (String::from_utf8(head).unwrap(), rest)
    }

    #[tokio::test]
    async fn a_proxy_passes_requests_on_and_tunnels_tls() {
        let authorization = "proxy-authorization: Basic dXNlcjpzZWNyZXQ=";
        let reply = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
        let (head, rest) = seen_by_proxy("http://tokens.example/a?b", reply).await;
        assert!(head.starts_with("GET http://tokens.example/a?b HTTP/1.1"));
        assert!(head.contains(authorization));
        assert!(rest.is_empty());

        let reply = "HTTP/1.1 200 OK\r\n\r\n";
        let (head, rest) = seen_by_proxy("https://tokens.example/a?b", reply).await;
        assert!(head.starts_with("CONNECT tokens.example:443 HTTP/1.1"));
        assert!(head.contains(authorization));
        assert_eq!(rest[0], 0x16, "a TLS handshake");
    }
}
