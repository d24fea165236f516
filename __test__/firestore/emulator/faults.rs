//! A layer in front of the Firestore emulator. It records the calls, and makes the next calls fail in
//! the ways in which a network can fail.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call never reaches the emulator and is never answered.
    Swallow,
    /// The emulator executes the call, but the answer is lost.
    LoseAnswer,
    /// The call reaches the emulator this much later, even if the caller has given up by then.
    Late(Duration),
    /// The call never reaches the emulator. The answer is this gRPC code.
    Status(u8),
    /// The call never reaches the emulator. The answer begins and never continues.
    Mute,
    /// The emulator executes the call. The answer claims to be larger than a client accepts.
    Oversized,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub method: String,
    pub authorization: Option<String>,
}

#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    next: Vec<(String, VecDeque<Fault>)>,
}

impl Faults {
    /// Injects `faults` into the next calls of `method`, one into each. Later calls pass.
    pub fn set(&self, method: &str, faults: impl IntoIterator<Item = Fault>) {
        let mut state = self.lock();
        state.next.retain(|(name, _)| name != method);
        let faults = faults.into_iter().collect();
        state.next.push((method.to_owned(), faults));
    }

    /// Returns the calls since the last time.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.lock().calls)
    }

    /// Puts this layer in front of `routes`.
    pub fn guard(&self, routes: Router) -> Router {
        routes.layer(from_fn_with_state(self.clone(), pass))
    }

    fn record(&self, request: &Request) -> Option<Fault> {
        let path = request.uri().path();
        let method = path.rsplit('/').next().unwrap_or(path).to_owned();
        let authorization = request
            .headers()
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        let mut state = self.lock();
        let fault = state
            .next
            .iter_mut()
            .find(|(name, _)| *name == method)
            .and_then(|(_, faults)| faults.pop_front());
        state.calls.push(Call {
            method,
            authorization,
        });
        fault
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn pass(Shared(faults): Shared<Faults>, request: Request, next: Next) -> Response {
    match faults.record(&request) {
        None => next.run(request).await,
        Some(Fault::Swallow) => std::future::pending().await,
        Some(Fault::LoseAnswer) => {
            let _ = next.run(request).await;
            std::future::pending().await
        }
        Some(Fault::Late(delay)) => {
            // The body is read first, because it ends with the caller's stream.
            let (head, body) = request.into_parts();
            let Ok(body) = axum::body::to_bytes(body, 1 << 20).await else {
                return status(13);
            };
            let late = tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                next.run(Request::from_parts(head, body.into())).await
            });
            late.await.unwrap_or_else(|_| status(13))
        }
        Some(Fault::Status(code)) => status(code),
        Some(Fault::Mute) => {
            let silence = futures_util::stream::pending::<Result<Vec<u8>, Infallible>>();
            let body = Body::from_stream(silence);
            ([(CONTENT_TYPE, "application/grpc")], body).into_response()
        }
        Some(Fault::Oversized) => {
            let _ = next.run(request).await;
            // The head of a message of 256 MiB.
            let head = [0, 0x10, 0, 0, 0];
            ([(CONTENT_TYPE, "application/grpc")], head).into_response()
        }
    }
}

fn status(code: u8) -> Response {
    let headers = [
        (CONTENT_TYPE.as_str(), "application/grpc".to_owned()),
        ("grpc-status", code.to_string()),
        ("grpc-message", "made by a test".to_owned()),
    ];
    headers.into_response()
}
