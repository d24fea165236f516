//! The Firestore emulator of the tests: `firestore_emulator [--host HOST] [--port PORT]`.
//!
//! Port 0, the default, is any free port. The emulator prints `listening on HOST:PORT` when it is ready,
//! and runs until its standard input ends or it is killed.
//!
//! Endpoints besides the emulator's own (`POST /reset` deletes all data):
//! - `GET /calls` returns the names of the gRPC calls since the last request, as a JSON array.
//! - `POST /faults/METHOD?FAULT,FAULT…` injects faults into the next calls of that method: `swallow`,
//!   `lose-answer`, `late-MS`, `mute`, `oversized` or `status-CODE` (see `faults.rs`).

mod faults;

use std::io::{Error, Result};
use std::time::Duration;

use axum::extract::{Path, RawQuery};
use axum::http::StatusCode;
use axum::routing::{get, post};
use faults::{Fault, Faults};

#[tokio::main]
async fn main() -> Result<()> {
    let (host, port) = arguments()?;
    let admin = hidane::Admin::default();
    let faults = Faults::default();
    let (recorded, injected) = (faults.clone(), faults.clone());
    let http = hidane::http_routes(admin.clone())
        .route("/calls", get(|| async move { call_names(&recorded) }))
        .route(
            "/faults/{method}",
            post(|Path(method): Path<String>, RawQuery(query)| async move {
                match parse_faults(&query.unwrap_or_default()) {
                    Some(faults) => {
                        injected.set(&method, faults);
                        StatusCode::NO_CONTENT
                    }
                    None => StatusCode::BAD_REQUEST,
                }
            }),
        );
    let grpc = faults.guard(hidane::grpc_routes(&admin));
    let listeners = hidane::bind(&host, port).await?;
    let address = listeners
        .first()
        .ok_or_else(|| Error::other("no address to listen on"))?
        .local_addr()?;
    println!("listening on {address}");
    hidane::serve(listeners, grpc, http, end_of_input()).await
}

fn arguments() -> Result<(String, u16)> {
    let (mut host, mut port) = ("127.0.0.1".to_owned(), 0);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        match name.as_str() {
            "--host" => host = value,
            "--port" => port = value.parse().map_err(Error::other)?,
            _ => return Err(Error::other(format!("unknown argument {name}"))),
        }
    }
    Ok((host, port))
}

fn call_names(faults: &Faults) -> String {
    let names: Vec<_> = faults
        .take_calls()
        .into_iter()
        .map(|call| call.method)
        .collect();
    serde_json::json!(names).to_string()
}

fn parse_faults(text: &str) -> Option<Vec<Fault>> {
    let texts = text.split(',').filter(|fault| !fault.is_empty());
    texts
        .map(|fault| match fault.split_once('-') {
            Some(("late", ms)) => Some(Fault::Late(Duration::from_millis(ms.parse().ok()?))),
            Some(("status", code)) => Some(Fault::Status(code.parse().ok()?)),
            _ if fault == "swallow" => Some(Fault::Swallow),
            _ if fault == "lose-answer" => Some(Fault::LoseAnswer),
            _ if fault == "mute" => Some(Fault::Mute),
            _ if fault == "oversized" => Some(Fault::Oversized),
            _ => None,
        })
        .collect()
}

/// Waits until the input ends, which happens when the parent process dies. So no emulator outlives the
/// tests that started it.
async fn end_of_input() {
    let (ended, end) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(ended);
    });
    let _ = end.await;
}
