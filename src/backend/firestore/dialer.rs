//! Gets an access token, makes the connection, and explains why a server cannot be talked to.

use std::sync::Arc;
use std::time::Duration;

use firestore::gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use firestore::gcloud_sdk::{GoogleAuthHeaders, GoogleAuthMiddlewareLayer, HeaderMap};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::{HeaderValue, Uri};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tower::{Layer, ServiceExt};

use super::connections::{Connection, Connections, Step};
use super::credentials::Source;
use super::error::no_token;
use crate::backend::tls;
use crate::backend::unreachable::{Peer, Reason, Settings, probe};
use crate::error::{Error, Result};

const USER_AGENT: &str = concat!("syncguard/", env!("CARGO_PKG_VERSION"));
const KEEP_ALIVE: Duration = Duration::from_secs(60);

const SETTINGS: Settings = Settings {
    use_tls: "Leave out emulatorHost and ssl: false, which are for emulators",
    use_no_tls: "If it is an emulator, name it as emulatorHost, or set ssl: false",
    trust_authority: "Have this system trust its authority, or name that in SSL_CERT_FILE",
    expect_name: "Use the host name that its certificate is for",
    present_certificate: "Is it a Firestore server?",
};

/// Credentials that have produced a token for the database.
pub(super) struct Authorized {
    database: String,
    middleware: GoogleAuthMiddlewareLayer,
}

impl Authorized {
    pub(super) fn connect(self, channel: Channel) -> Connection {
        Connection {
            client: FirestoreClient::new(self.middleware.layer(channel)),
            database: self.database,
            has_answered: false.into(),
            abandoned: CancellationToken::new(),
        }
    }
}

impl Connections {
    pub(super) async fn authorize(&self) -> Result<Authorized> {
        tls::install_provider();
        self.trouble.lock().step = Step::Token;
        let config = Arc::clone(&self.config);
        let found = tokio::task::spawn_blocking(move || Source::find(&config)).await;
        let source = found.map_err(|_| Error::internal("The credentials could not be read"))??;
        let project = match self.project.get() {
            Some(project) => project,
            None => {
                let found = source.project_id().await?;
                self.project.get_or_init(|| found)
            }
        };
        let database = format!("projects/{project}/databases/{}", self.config.database_id());
        let auth = GoogleAuthHeaders::from(source.credentials().await?);
        let token = auth.headers().await;
        token.map_err(|error| no_token(&error, &self.place()))?;
        let mut middleware = GoogleAuthMiddlewareLayer::new(auth, Some(database.clone()))
            .map_err(|_| Error::invalid_argument("The project's id is malformed"))?;
        if self.config.is_emulator() {
            // Emulators give full access to this token.
            let owner = (AUTHORIZATION, HeaderValue::from_static("Bearer owner"));
            middleware.set_additional_headers(HeaderMap::from_iter([owner]));
        }
        Ok(Authorized {
            database,
            middleware,
        })
    }

    pub(super) async fn dial(&self) -> Result<Channel> {
        self.trouble.lock().step = Step::Connecting;
        let failed = |error: tonic::transport::Error| self.peer(&self.place()).error_from(&error);
        let mut endpoint = Endpoint::from_shared(self.config.url())
            .and_then(|endpoint| endpoint.user_agent(USER_AGENT))
            .map_err(failed)?
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        if self.config.speaks_tls() {
            let roots = tls::system_or_mozilla_roots().await.roots;
            let tls = ClientTlsConfig::new().trust_anchors(roots);
            endpoint = endpoint.tls_config(tls).map_err(failed)?;
        }
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(KEEP_ALIVE));
        // Distinguishes an unreachable server from one that does not answer.
        let trouble = Arc::clone(&self.trouble);
        let connector = http.map_response(move |stream| {
            trouble.lock().step = Step::Connected;
            stream
        });
        let connecting = endpoint.connect_with_connector(connector);
        connecting.await.map_err(failed)
    }

    /// Returns the error of a connection that broke before any answer came.
    pub(super) async fn not_understood(&self, reason: Reason) -> Error {
        let place = self.place();
        self.peer(&place).error(match reason {
            _ if !self.config.speaks_tls() && self.is_tls_port().await => Reason::SpeaksTls,
            Reason::Other | Reason::Closed => Reason::HungUp,
            reason => reason,
        })
    }

    async fn is_tls_port(&self) -> bool {
        let Ok(uri) = self.config.url().parse::<Uri>() else {
            return false;
        };
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let connecting = TcpStream::connect((host, uri.port_u16().unwrap_or(80)));
        match tokio::time::timeout(probe::PROBE_TIMEOUT, connecting).await {
            Ok(Ok(stream)) => probe::speaks_tls(stream, host).await,
            _ => false,
        }
    }

    pub(super) fn peer<'a>(&self, place: &'a str) -> Peer<'a> {
        Peer {
            name: place,
            tls: self.config.speaks_tls(),
            settings: &SETTINGS,
        }
    }
}
