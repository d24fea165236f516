//! A switchboard in front of the Firestore emulator: counts the calls and lets a test make the
//! next ones fail in the ways a network can.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It never reaches the emulator and is never answered.
    Swallow,
    /// The emulator carries it out; the answer is lost.
    LoseAnswer,
    /// The emulator gets it this much later, also when the caller is gone by then.
    Late(Duration),
    /// The emulator never sees it; this gRPC code is the answer.
    Status(u8),
    /// The emulator never sees it; an answer begins, and nothing more is heard.
    Mute,
    /// The emulator carries it out; the answer claims to be larger than a client takes.
    Oversized,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub method: String,
    pub authorization: Option<String>,
}

#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<Switches>>);

#[derive(Default)]
struct Switches {
    calls: Vec<Call>,
    next: Vec<(String, VecDeque<Fault>)>,
}

impl Faults {
    /// The next calls of `method` meet `faults`, one each; later ones pass.
    pub fn set(&self, method: &str, faults: impl IntoIterator<Item = Fault>) {
        let mut switches = self.lock();
        switches.next.retain(|(name, _)| name != method);
        switches
            .next
            .push((method.to_owned(), faults.into_iter().collect()));
    }

    /// The calls since the last time this was asked.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.lock().calls)
    }

    /// Puts the switchboard in front of `routes`.
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
        let mut switches = self.lock();
        let fault = switches
            .next
            .iter_mut()
            .find(|(name, _)| *name == method)
            .and_then(|(_, faults)| faults.pop_front());
        switches.calls.push(Call {
            method,
            authorization,
        });
        fault
    }

    fn lock(&self) -> MutexGuard<'_, Switches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn pass(State(faults): State<Faults>, request: Request, next: Next) -> Response {
    match faults.record(&request) {
        None => next.run(request).await,
        Some(Fault::Swallow) => std::future::pending().await,
        Some(Fault::LoseAnswer) => {
            let _ = next.run(request).await;
            std::future::pending().await
        }
        Some(Fault::Late(delay)) => {
            // The body is read first: it would be gone with the caller's stream.
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
