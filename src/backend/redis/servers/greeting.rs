//! Logs in to a server that was reached.

use std::sync::atomic::Ordering;

use redis::Value;

use super::dialer::Dialer;
use crate::backend::redis::config::Login;
use crate::backend::redis::connection::Connection;
use crate::backend::redis::error;
use crate::error::{ErrorCode, Result};

impl Dialer {
    pub(super) async fn greet(&self, connection: &Connection) -> Result<()> {
        let Login {
            username,
            password,
            db,
            client_name,
            provider,
        } = &self.login;
        let asked = match provider {
            Some(provider) => Some(provider.ask().await?),
            None => None,
        };
        let (username, password) = match &asked {
            Some(asked) => (&asked.username, &asked.password),
            None => (username, password),
        };
        let username = username.as_deref().filter(|name| !name.is_empty());
        let password = password.as_deref().unwrap_or_default();
        if username.is_some() || !password.is_empty() {
            let mut auth = vec![b"AUTH".as_slice()];
            auth.extend(username.map(str::as_bytes));
            auth.push(password.as_bytes());
            match connection.ask(&auth).await? {
                Value::ServerError(error) if error::no_password_needed(&error) => {
                    let warning = "The Redis server does not require a password, but one was given";
                    let was_warned = self.warned.swap(true, Ordering::Relaxed);
                    if !was_warned {
                        self.warnings.warn(warning);
                    }
                }
                Value::ServerError(refused) => {
                    let mut error = error::from_server(&refused);
                    if error.code == ErrorCode::Internal {
                        error.code = ErrorCode::AuthFailed;
                    }
                    return Err(error);
                }
                _ => {}
            }
        }
        if let Some(name) = client_name {
            // The name is only a convenience, so a refusal is ignored.
            let set_name = [b"CLIENT".as_slice(), b"SETNAME", name.as_bytes()];
            connection.ask(&set_name).await?;
        }
        let number = db.to_string();
        let select = [b"SELECT".as_slice(), number.as_bytes()];
        let ping = [b"PING".as_slice()];
        let last = if *db == 0 { &ping[..] } else { &select };
        match connection.ask(last).await? {
            // A user who may not run PING may still run scripts.
            Value::ServerError(error) if error.code() == "NOPERM" && *db == 0 => {}
            Value::ServerError(error) => return Err(error::from_server(&error)),
            _ => {}
        }
        if self.tracks {
            track(connection).await?;
        }
        Ok(())
    }
}

/// Makes the server report changes of the keys that are read over this connection.
async fn track(connection: &Connection) -> Result<()> {
    for command in [
        &[b"HELLO".as_slice(), b"3"][..],
        &[b"CLIENT", b"TRACKING", b"ON"],
    ] {
        if let Value::ServerError(error) = connection.ask(command).await? {
            return Err(error::from_server(&error));
        }
    }
    Ok(())
}
