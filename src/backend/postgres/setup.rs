//! Making the tables.

use tokio_postgres::SimpleQueryMessage;

use super::client::Client;
use super::error;
use super::session::Session;
use super::sql::{self, Arg, COUNTERS, LOCKS};
use super::table::Table;
use crate::error::Result;

pub struct Schema {
    is_there: String,
    create: String,
}

impl Schema {
    pub fn new(locks: &Table, counters: &Table) -> Self {
        let (quoted_locks, quoted_counters) = (locks.quoted(), counters.quoted());
        let names = [Arg::Text(&quoted_locks), Arg::Text(&quoted_counters)];
        let tables = include_str!("sql/schema.sql")
            .replace(
                &format!("idx_{LOCKS}_lock_id"),
                &locks.quoted_index("lock_id"),
            )
            .replace(
                &format!("idx_{LOCKS}_expires"),
                &locks.quoted_index("expires"),
            )
            .replace(COUNTERS, &quoted_counters)
            .replace(LOCKS, &quoted_locks);
        Self {
            is_there: sql::filled_in(include_str!("sql/is_set_up.sql"), &names),
            // Those who come at the same time wait: two CREATE … IF NOT EXISTS at once can fail.
            create: format!(
                "SELECT pg_advisory_xact_lock(hashtext('syncguard setupSchema'));\n{tables}"
            ),
        }
    }

    /// Does nothing when everything is there: a role that may not create tables can call it too.
    pub async fn create(&self, client: &Client) -> Result<()> {
        client
            .alone(async |session: &Session| {
                let answer = run(session, &self.is_there).await?;
                let is_there = answer.iter().any(|message| {
                    matches!(message, SimpleQueryMessage::Row(row) if row.try_get(0).is_ok_and(|value| value == Some("t")))
                });
                if !is_there {
                    run(session, &self.create).await?;
                }
                Ok(())
            })
            .await
    }
}

async fn run(session: &Session, message: &str) -> Result<Vec<SimpleQueryMessage>> {
    session
        .run(message)
        .await
        .map_err(|cause| error::from_driver(&cause))
}
