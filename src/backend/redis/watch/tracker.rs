//! The connection over which the server reports changes of watched keys.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep, sleep_until};

use super::Shared;
use super::keys::{Found, KeyRead, WatchedKeys};
use crate::backend::backoff::Backoff;
use crate::backend::redis::connection::Connection;
use crate::backend::redis::error;
use crate::backend::redis::format::record;
use crate::backend::redis::servers::server::Server;
use crate::error::{Error, ErrorCode, Result};

/// How long the connection is kept while nobody watches, because the next watch may come soon.
const IDLE_LIMIT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// How often the server is pinged: a connection may die without a sign.
const PING_INTERVAL: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });
/// How long to wait after a server refused to push, before it is asked again.
const REFUSED_PAUSE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 60 });
/// A connection that lasted this long starts the back-off anew.
const STEADY_AFTER: Duration = Duration::from_secs(5);

pub(super) async fn run(shared: Arc<Shared>) {
    shared.closed.run_until_cancelled(track(&shared)).await;
}

/// Reconnects until nobody watches any more.
async fn track(shared: &Shared) {
    let mut backoff = Backoff::new(shared.route.dialer.connect_timeout);
    loop {
        match connect(shared).await {
            Ok((server, pushes)) => {
                let connected_at = Instant::now();
                serve(shared, &server.background, pushes).await;
                shared.state.lock().keys.lose_connection();
                if connected_at.elapsed() >= STEADY_AFTER {
                    backoff = Backoff::new(shared.route.dialer.connect_timeout);
                }
            }
            Err(error) if is_temporary(&error) => {}
            Err(error) => {
                report_polling(shared, &error);
                sleep(REFUSED_PAUSE).await;
            }
        }
        if shared.stop_if_unwatched() {
            return;
        }
        backoff.wait().await;
    }
}

async fn connect(shared: &Shared) -> Result<(Arc<Server>, Receiver<PushInfo>)> {
    let server = shared.route.connect().await?;
    let pushes = server.background.pushes().ok_or_else(error::lost)?;
    Ok((server, pushes))
}

fn is_temporary(error: &Error) -> bool {
    matches!(
        error.code,
        ErrorCode::ServiceUnavailable | ErrorCode::NetworkTimeout | ErrorCode::RateLimited
    )
}

/// Says once that waiters poll. It is no warning, because everything works without notifications.
fn report_polling(shared: &Shared, error: &Error) {
    if !shared.has_reported_polling.swap(true, Ordering::Relaxed) {
        let cause = error.said();
        shared.route.dialer.warnings.debug(&format!(
            "Waiters poll, because Redis does not notify them of releases: that needs Redis 6 or \
             later, and permission for the commands HELLO and CLIENT ({cause})"
        ));
    }
}

/// Returns when the connection is lost, or when it has not been needed for a while.
async fn serve(shared: &Shared, connection: &Connection, mut pushes: Receiver<PushInfo>) {
    let over = connection.over();
    let mut alive = std::pin::pin!(ping_until_silent(connection));
    let mut reads = FuturesUnordered::new();
    let mut idle_since = None;
    loop {
        let is_idle = {
            let keys = &mut shared.state.lock().keys;
            let new_reads = keys.start_reads().into_iter();
            reads.extend(new_reads.map(|read| get(connection, read)));
            keys.is_empty()
        };
        idle_since = is_idle.then(|| idle_since.unwrap_or_else(Instant::now));
        let idle_until = idle_since.unwrap_or_else(Instant::now) + IDLE_LIMIT;
        tokio::select! {
            () = over.cancelled() => return,
            () = &mut alive => return,
            () = sleep_until(idle_until), if is_idle => return,
            () = shared.watches_changed.notified() => {}
            push = pushes.recv() => match push {
                Ok(push) => apply_invalidation(&mut shared.state.lock().keys, &push),
                Err(RecvError::Lagged(_)) => shared.state.lock().keys.invalidate_all(),
                Err(RecvError::Closed) => return,
            },
            Some((read, answer)) = reads.next() => {
                let Ok(found) = found(shared, answer) else {
                    return;
                };
                let wake_up = shared.state.lock().keys.finish_read(&read, found);
                if let Some(wake_up) = wake_up {
                    wake_up.send();
                }
            }
        }
    }
}
/// Returns when the server no longer answers.
async fn ping_until_silent(connection: &Connection) {
    loop {
        sleep(PING_INTERVAL).await;
        if connection.ask(&[b"PING"]).await.is_err() {
            return;
        }
    }
}

/// Reads the key, which also makes the server report its next change.
async fn get(connection: &Connection, read: KeyRead) -> (KeyRead, Result<Value>) {
    let answer = connection.ask(&[b"GET", &read.key]).await;
    (read, answer)
}

/// Returns an error if this server cannot tell whether the key is free.
fn found(shared: &Shared, answer: Result<Value>) -> Result<Found> {
    match answer? {
        Value::Nil => Ok(Found::Free),
        Value::ServerError(refused) => {
            if error::code_of(&refused) == "MOVED" {
                shared.route.note_move(&refused);
            }
            let error = error::from_server(&refused);
            if is_temporary(&error) {
                Err(error)
            } else {
                // Let the waiter make an attempt: it gets the same error, and reports it.
                Ok(Found::Free)
            }
        }
        Value::BulkString(stored) => Ok(match record::generation(&stored) {
            Some(generation) => Found::Shared(generation),
            None => Found::Locked,
        }),
        _ => Ok(Found::Locked),
    }
}

/// Applies a push that names the keys that have changed, or none if all have.
fn apply_invalidation(keys: &mut WatchedKeys, push: &PushInfo) {
    if push.kind != PushKind::Invalidate {
        return;
    }
    for value in &push.data {
        let Value::Array(changed) = value else {
            keys.invalidate_all();
            continue;
        };
        for key in changed {
            if let Value::BulkString(key) = key {
                keys.invalidate(key);
            }
        }
    }
}
