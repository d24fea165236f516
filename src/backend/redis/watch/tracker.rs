//! The connection on which the server pushes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Shared;
use super::keys::{Look, WatchedKeys};
use crate::backend::backoff::Backoff;
use crate::backend::redis::connection::Connection;
use crate::backend::redis::connections::redirect;
use crate::backend::redis::error;
use crate::backend::redis::servers::server::Server;
use crate::error::{Error, ErrorCode, Result};

/// How long the connection is kept when nobody watches: the next may come soon.
const IDLE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// How often a sign of life is asked for: a connection may die without a word.
const PING_EVERY: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });
/// When a server that does not offer this is asked again.
const REFUSED_PAUSE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 60 });
/// A connection that lasted so long was a good one.
const STEADY: Duration = Duration::from_secs(5);

struct Tracked {
    server: Arc<Server>,
    pushes: Receiver<PushInfo>,
}

pub(super) async fn run(shared: Arc<Shared>) {
    shared.closed.run_until_cancelled(track(&shared)).await;
}

/// Until nobody watches any more.
async fn track(shared: &Shared) {
    let mut backoff = Backoff::new(shared.connect_timeout);
    loop {
        match connect(shared).await {
            Ok(tracked) => {
                let since = Instant::now();
                tracked.serve(shared).await;
                shared.state.lock().keys.lost();
                if since.elapsed() >= STEADY {
                    backoff = Backoff::new(shared.connect_timeout);
                }
            }
            Err(error) if may_pass(&error) => {}
            Err(error) => {
                note(shared, &error);
                sleep(REFUSED_PAUSE).await;
            }
        }
        if shared.dismiss_tracker() {
            return;
        }
        backoff.wait().await;
    }
}

async fn connect(shared: &Shared) -> Result<Tracked> {
    let (dialer, limit) = (&shared.dialer, shared.connect_timeout);
    let connecting = shared.topology.connect(shared.shard, dialer, limit / 3);
    let server = timeout(limit, connecting)
        .await
        .map_err(|_| dialer.timed_out())??;
    let pushes = server.background.pushes().ok_or_else(error::lost)?;
    Ok(Tracked { server, pushes })
}

fn may_pass(error: &Error) -> bool {
    matches!(
        error.code,
        ErrorCode::ServiceUnavailable | ErrorCode::NetworkTimeout | ErrorCode::RateLimited
    )
}

/// Once: waiters poll then, and nobody need do anything.
fn note(shared: &Shared, error: &Error) {
    if !shared.noted.swap(true, Ordering::Relaxed) {
        let cause = error.said();
        shared.dialer.warnings.debug(&format!(
            "Waiters poll, as Redis does not tell them of releases: that needs Redis 6 or newer and \
             permission for HELLO and CLIENT ({cause})"
        ));
    }
}

impl Tracked {
    /// Until the connection is lost or has not been needed for a while.
    async fn serve(mut self, shared: &Shared) {
        let Self { server, pushes } = &mut self;
        let connection = &server.background;
        let over = connection.over();
        let mut alive = std::pin::pin!(stay_alive(connection));
        let mut looking = FuturesUnordered::new();
        let mut idle_since = None;
        loop {
            let is_idle = {
                let keys = &mut shared.state.lock().keys;
                looking.extend(keys.looks().into_iter().map(|look| read(connection, look)));
                keys.is_empty()
            };
            idle_since = is_idle.then(|| idle_since.unwrap_or_else(Instant::now));
            let idle_until = idle_since.unwrap_or_else(Instant::now) + IDLE;
            tokio::select! {
                () = over.cancelled() => return,
                () = &mut alive => return,
                () = sleep_until(idle_until), if is_idle => return,
                () = shared.work.notified() => {}
                push = pushes.recv() => match push {
                    Ok(push) => apply_invalidation(&mut shared.state.lock().keys, &push),
                    Err(RecvError::Lagged(_)) => shared.state.lock().keys.flushed(),
                    Err(RecvError::Closed) => return,
                },
                Some((look, answer)) = looking.next() => match is_free(shared, answer) {
                    Ok(free) => shared.state.lock().keys.looked(&look, free),
                    Err(_) => return,
                },
            }
        }
    }
}

/// Returns when the server does not answer any more.
async fn stay_alive(connection: &Connection) {
    loop {
        sleep(PING_EVERY).await;
        if connection.ask(&[b"PING"]).await.is_err() {
            return;
        }
    }
}

/// From then on the server pushes the next change.
async fn read(connection: &Connection, look: Look) -> (Look, Result<Value>) {
    let answer = connection.ask(&[b"GET", &look.key]).await;
    (look, answer)
}

/// An error when this server cannot tell.
fn is_free(shared: &Shared, answer: Result<Value>) -> Result<bool> {
    match answer? {
        Value::Nil => Ok(true),
        Value::ServerError(refused) => {
            if error::code_of(&refused) == "MOVED" {
                shared.topology.moved(shared.shard, redirect(&refused));
            }
            let error = error::from_server(&refused);
            // The next attempt gets the same error, and tells the caller.
            if may_pass(&error) {
                Err(error)
            } else {
                Ok(true)
            }
        }
        _ => Ok(false),
    }
}

/// Applies a push that names the keys that have changed, or none if all have.
fn apply_invalidation(keys: &mut WatchedKeys, push: &PushInfo) {
    if push.kind != PushKind::Invalidate {
        return;
    }
    for value in &push.data {
        match value {
            Value::Nil => keys.flushed(),
            Value::Array(changed) => {
                for key in changed {
                    if let Value::BulkString(key) = key {
                        keys.pushed(key);
                    }
                }
            }
            _ => {}
        }
    }
}
