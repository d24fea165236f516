//! Whether a session is our own and hears notifications while it is idle.
//!
//! A pooler may hand out another of its sessions for each transaction. Notifications are then lost,
//! and what belongs to a session, such as a lock or a LISTEN, would be left to strangers.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::backend::postgres::client::Client;
use crate::backend::postgres::connect::{Session, first_of};
use crate::error::{Error, Result};

const PID: &str = "SELECT pg_backend_pid()";
/// Keeps another session busy for a moment.
const OTHER_PID: &str = "SELECT pg_backend_pid() FROM pg_sleep(0.02)";
const ASK_EVERY: Duration = Duration::from_millis(4);
/// Far longer than any way takes.
const PATIENCE: Duration = Duration::from_secs(2);
const TIDY_ATTEMPTS: usize = 100;

/// The number of the server's process, if it is ours alone. `heard`: the session was notified.
pub(super) async fn prove(
    session: &Session,
    client: &Client,
    heard: &Notify,
) -> Result<Option<String>> {
    let pid = pid(session, PID).await?;
    if !stays(session, client, &pid).await? {
        return Ok(None);
    }
    // Of a name that nobody else has, so that it can be taken back on any session.
    let channel = format!("\"syncguard_{:032x}\"", rand::random::<u128>());
    let listening = self::pid(session, &format!("LISTEN {channel}; {PID}")).await?;
    let notified = client.ask(&format!("NOTIFY {channel}")).await;
    let was_heard = notified.is_ok() && timeout(PATIENCE, heard.notified()).await.is_ok();
    let unlisten = format!("UNLISTEN {channel}; {PID}");
    for _ in 0..TIDY_ATTEMPTS {
        if self::pid(session, &unlisten).await? == listening {
            break;
        }
    }
    notified?;
    Ok(Some(pid).filter(|pid| was_heard && *pid == listening))
}

/// Whether all transactions of this session, and none of another, are in this process. This alone
/// proves little, but it leaves no trace: a pooler that gives the process it was given back last, or
/// each in turn, is noticed already here.
async fn stays(session: &Session, client: &Client, pid: &str) -> Result<bool> {
    let mut other = pin!(client.ask(OTHER_PID));
    let other = loop {
        tokio::select! {
            biased;
            other = &mut other => break other?,
            () = sleep(ASK_EVERY) => {
                if self::pid(session, PID).await? != pid {
                    return Ok(false);
                }
            }
        }
    };
    Ok(first_of(&other) != Some(pid)
        && self::pid(session, PID).await? == pid
        && self::pid(session, PID).await? == pid)
}

async fn pid(session: &Session, message: &str) -> Result<String> {
    let answer = session.ask(message).await?;
    let pid = first_of(&answer).map(str::to_owned);
    pid.ok_or_else(|| Error::internal("PostgreSQL answered in an unexpected way"))
}
