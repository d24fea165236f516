//! A token server that records the requests that it received.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use serde_json::json;
use tokio::net::TcpListener;

pub struct TokenServer {
    /// `host:port`
    pub host: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

#[derive(Clone)]
pub struct Asked {
    pub path: String,
    pub headers: HeaderMap,
    pub body: String,
}

impl TokenServer {
    /// Starts a server whose answers, status and body, come from `answer`.
    pub async fn start<F>(answer: F) -> Self
    where
        F: Fn(&Asked) -> (u16, String) + Clone + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        let handler = async move |uri: Uri, headers: HeaderMap, body: Bytes| {
            let asked = Asked {
                path: uri.to_string(),
                headers,
                body: String::from_utf8(body.to_vec()).unwrap(),
            };
            let (status, body) = answer(&asked);
            heard.lock().unwrap().push(asked);
            let flavor = [("metadata-flavor", "Google")];
            (StatusCode::from_u16(status).unwrap(), flavor, body)
        };
        let routes = Router::new().fallback(handler);
        let end = std::future::pending();
        tokio::spawn(hidane::serve(vec![listener], Router::new(), routes, end));
        Self { host, asked }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub fn token(text: &str) -> String {
        Self::token_for(text, 3_600)
    }

    pub fn token_for(text: &str, seconds: u64) -> String {
        json!({
            "access_token": text,
            "token_type": "Bearer",
            "expires_in": seconds,
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        })
        .to_string()
    }
}
