//! Calls to Firestore, with an access token each.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use tonic::body::Body;
use tonic::codegen::{Service, StdError};
use tonic::transport::Channel;

use super::USER_AGENT;
use super::tokens::Tokens;

const API_CLIENT: HeaderName = HeaderName::from_static("x-goog-api-client");
/// Tells the servers in front of the database where a call goes to.
const RESOURCE_PREFIX: HeaderName = HeaderName::from_static("google-cloud-resource-prefix");

#[derive(Clone)]
pub(in crate::backend::firestore) struct AuthorizedChannel {
    channel: Channel,
    tokens: Arc<Tokens>,
    database: HeaderValue,
}

impl AuthorizedChannel {
    /// `database`: its path.
    pub(in crate::backend::firestore) fn new(
        channel: Channel,
        tokens: Tokens,
        database: HeaderValue,
    ) -> Self {
        Self {
            channel,
            tokens: Arc::new(tokens),
            database,
        }
    }
}

impl Service<hyper::Request<Body>> for AuthorizedChannel {
    type Response = hyper::Response<Body>;
    type Error = StdError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: hyper::Request<Body>) -> Self::Future {
        // The one that is ready goes, its clone stays.
        let clone = self.channel.clone();
        let mut channel = std::mem::replace(&mut self.channel, clone);
        let tokens = Arc::clone(&self.tokens);
        let database = self.database.clone();
        Box::pin(async move {
            let authorization: HeaderMap = tokens.headers().await?;
            let headers = request.headers_mut();
            headers.extend(authorization);
            headers.insert(API_CLIENT, HeaderValue::from_static(USER_AGENT));
            headers.insert(RESOURCE_PREFIX, database);
            Ok(channel.call(request).await?)
        })
    }
}
