//! Finds out whether a connection has a server session of its own, and receives notifications while
//! it is idle.
//!
//! A pooler may run each transaction in another session. Notifications are then lost, and what belongs
//! to a session, such as a lock or a LISTEN, would be left to strangers.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::backend::postgres::connection::{Connection, first_of};
use crate::backend::postgres::connections::Connections;
use crate::error::{Error, Result};

const PID: &str = "SELECT pg_backend_pid()";
/// Occupies another session for a moment.
const OTHER_PID: &str = "SELECT pg_backend_pid() FROM pg_sleep(0.02)";
const QUERY_INTERVAL: Duration = Duration::from_millis(4);
/// Far longer than a notification takes over any network.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_UNLISTEN_ATTEMPTS: usize = 100;

/// Returns the id of the server's process, if it serves this connection alone. `received` is notified
/// when the connection receives a notification.
pub(super) async fn prove(
    connection: &Connection,
    connections: &Connections,
    received: &Notify,
) -> Result<Option<String>> {
    let pid = pid(connection, PID).await?;
    if !seems_to_stay(connection, connections, &pid).await? {
        return Ok(None);
    }
    // Nobody else listens on this channel, so it can be unlistened on any session.
    let channel = format!("\"syncguard_{:032x}\"", rand::random::<u128>());
    let listening = self::pid(connection, &format!("LISTEN {channel}; {PID}")).await?;
    let notified = connections.query(&format!("NOTIFY {channel}")).await;
    let has_arrived =
        notified.is_ok() && timeout(ARRIVAL_TIMEOUT, received.notified()).await.is_ok();
    let unlisten = format!("UNLISTEN {channel}; {PID}");
    for _ in 0..MAX_UNLISTEN_ATTEMPTS {
        if self::pid(connection, &unlisten).await? == listening {
            break;
        }
    }
    notified?;
    Ok(Some(pid).filter(|pid| has_arrived && *pid == listening))
}

/// Returns whether all transactions of this connection, and none of another, run in this process.
/// This alone proves little, but it leaves no trace on the server: a pooler that hands out the session
/// that was used last, or each in turn, is already noticed here.
async fn seems_to_stay(
    connection: &Connection,
    connections: &Connections,
    pid: &str,
) -> Result<bool> {
    let mut other = pin!(connections.query(OTHER_PID));
    let other = loop {
        tokio::select! {
            biased;
            other = &mut other => break other?,
            () = sleep(QUERY_INTERVAL) => {
                if self::pid(connection, PID).await? != pid {
                    return Ok(false);
                }
            }
        }
    };
    Ok(first_of(&other) != Some(pid)
        && self::pid(connection, PID).await? == pid
        && self::pid(connection, PID).await? == pid)
}

async fn pid(connection: &Connection, message: &str) -> Result<String> {
    let answer = connection.query(message).await?;
    let pid = first_of(&answer).map(str::to_owned);
    pid.ok_or_else(|| Error::internal("PostgreSQL answered in an unexpected way"))
}
