//! Makes connections, and explains why one could not be made.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use firestore::gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use firestore::gcloud_sdk::{GoogleAuthHeaders, GoogleAuthMiddlewareLayer};
use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::HttpConnector;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tower_layer::Layer;

use super::config::FirestoreConfig;
use super::connections::Connection;
use super::credentials::{credentials, project_id};
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

/// The step that an attempt to connect has reached.
#[derive(Clone, Copy, Default)]
enum Stage {
    #[default]
    Credentials,
    Project,
    Token,
    Connecting,
    TlsHandshake,
}

/// Makes connections, one at a time. Clones share what they have learned.
#[derive(Clone)]
pub(super) struct Dialer {
    pub(super) config: Arc<FirestoreConfig>,
    stage: Arc<Mutex<Stage>>,
    /// The project, once it is known.
    project: Arc<OnceLock<String>>,
    /// Credentials that produced a token, so that repeated attempts do not each need another.
    proven: Arc<Mutex<Option<Arc<GoogleAuthHeaders>>>>,
}

impl Dialer {
    pub(super) fn new(config: Arc<FirestoreConfig>) -> Self {
        let project = config.project_id.clone();
        Self {
            config,
            stage: Arc::default(),
            project: Arc::new(project.map_or_else(OnceLock::new, OnceLock::from)),
            proven: Arc::default(),
        }
    }

    /// Names the server and the project in messages.
    pub(super) fn place(&self) -> String {
        self.config.place(self.project.get().map(String::as_str))
    }

    /// Makes one attempt to connect. The caller limits its time.
    pub(super) async fn dial(self) -> Result<Arc<Connection>> {
        tls::install_provider();
        self.enter(Stage::Credentials);
        let proven = self.proven.lock().take();
        let auth = match proven {
            Some(auth) => auth,
            None => Arc::new(GoogleAuthHeaders::from(credentials(&self.config).await?)),
        };
        self.enter(Stage::Project);
        let project = match self.project.get() {
            Some(project) => project,
            None => {
                let found = project_id().await?;
                self.project.get_or_init(|| found)
            }
        };
        self.enter(Stage::Token);
        let token = auth.headers().await;
        token.map_err(|error| no_token(&error, &self.place()))?;
        *self.proven.lock() = Some(Arc::clone(&auth));
        let database = format!("projects/{project}/databases/{}", self.config.database_id());
        let authorizing = GoogleAuthMiddlewareLayer::new(auth, Some(database.clone()))
            .map_err(|_| Error::invalid_argument("The project's id is malformed"))?;
        let channel = self.connect().await?;
        Ok(Arc::new(Connection {
            client: FirestoreClient::new(authorizing.layer(channel)),
            database,
            has_answered: false.into(),
            abandoned: CancellationToken::new(),
        }))
    }

    /// Makes the next attempt read the credentials again.
    pub(super) fn forget_credentials(&self) {
        self.proven.lock().take();
    }

    async fn connect(&self) -> Result<Channel> {
        self.enter(Stage::Connecting);
        let failed = |error: tonic::transport::Error| self.peer(&self.place()).error_from(&error);
        let mut endpoint = Endpoint::from_shared(self.config.url())
            .and_then(|endpoint| endpoint.user_agent(USER_AGENT))
            .map_err(failed)?
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        if self.speaks_tls() {
            let roots = tls::system_or_mozilla_roots().await.roots;
            let tls = ClientTlsConfig::new().trust_anchors(roots);
            endpoint = endpoint.tls_config(tls).map_err(failed)?;
        }
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(KEEP_ALIVE));
        let connector = Connector {
            http,
            dialer: self.clone(),
        };
        endpoint
            .connect_with_connector(connector)
            .await
            .map_err(failed)
    }

    /// Returns the error of an attempt that took too long.
    pub(super) fn timed_out(&self) -> Error {
        let place = self.place();
        let peer = self.peer(&place);
        match *self.stage.lock() {
            Stage::Credentials => Error::timeout(
                "The file with the Google credentials could not be read in time. Is it on a disk that does not answer?",
            ),
            Stage::Project => Error::invalid_argument(
                "The Google Cloud project is not known, and the metadata server did not name it in time. Set projectId or GOOGLE_CLOUD_PROJECT",
            ),
            Stage::Connecting => peer.error(Reason::TimedOut),
            Stage::TlsHandshake => peer.error(Reason::Silent),
            Stage::Token => Error::timeout(format!(
                "No access token for {place}: the server that gives them out did not answer in time. Check the network, and the proxies of HTTPS_PROXY"
            )),
        }
    }

    /// Returns the error of a server that accepts connections and does not answer.
    pub(super) fn no_answer(&self) -> Error {
        self.peer(&self.place()).error(Reason::Silent)
    }

    /// Returns the error of a connection that broke before any answer came.
    pub(super) async fn not_understood(&self, reason: Reason) -> Error {
        let place = self.place();
        let peer = self.peer(&place);
        peer.error(match reason {
            _ if !self.speaks_tls() && self.is_tls_port().await => Reason::SpeaksTls,
            Reason::Other | Reason::Closed => Reason::HungUp,
            reason => reason,
        })
    }

    /// Returns the error of a call that found no connection.
    pub(super) fn not_connected(&self, cause: &(dyn std::error::Error + 'static)) -> Error {
        self.peer(&self.place()).error_from(cause)
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

    fn peer<'a>(&self, place: &'a str) -> Peer<'a> {
        Peer {
            name: place,
            tls: self.speaks_tls(),
            settings: &SETTINGS,
        }
    }

    fn speaks_tls(&self) -> bool {
        !self.config.is_emulator()
    }

    fn enter(&self, stage: Stage) {
        *self.stage.lock() = stage;
    }
}

/// Records when the TCP connection is made, to distinguish an unreachable server from one that does not
/// answer.
#[derive(Clone)]
struct Connector {
    http: HttpConnector,
    dialer: Dialer,
}

impl Service<Uri> for Connector {
    type Response = <HttpConnector as Service<Uri>>::Response;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.http.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.http.call(uri);
        let dialer = self.dialer.clone();
        Box::pin(async move {
            let stream = connecting.await?;
            dialer.enter(Stage::TlsHandshake);
            Ok(stream)
        })
    }
}
