//! Making the tables.

use std::time::Duration;

use tokio_postgres::SimpleQueryRow;

use super::statements::{self, Arg, COUNTERS, LOCKS};
use super::table::Table;
use crate::backend::postgres::client::Client;
use crate::backend::postgres::connect::{Session, first_of};
use crate::error::Result;

pub(crate) struct Schema {
    is_there: String,
    report: String,
    create: String,
}

impl Schema {
    pub(crate) fn new(locks: &Table, counters: &Table, timeout: Duration) -> Self {
        let (quoted_locks, quoted_counters) = (locks.quoted(), counters.quoted());
        let names = [Arg::Text(&quoted_locks), Arg::Text(&quoted_counters)];
        // A table's name follows a space in that file; it is also a part of the indexes' names.
        let tables = include_str!("schema.sql")
            .replace(&format!(" {COUNTERS}"), &format!(" {quoted_counters}"))
            .replace(&format!(" {LOCKS}"), &format!(" {quoted_locks}"))
            .replace(
                &format!(" idx_{LOCKS}_lock_id"),
                &format!(" {}", locks.quoted_index("lock_id")),
            )
            .replace(
                &format!(" idx_{LOCKS}_expires"),
                &format!(" {}", locks.quoted_index("expires")),
            );
        Self {
            report: statements::filled_in(include_str!("report.sql"), &names),
            is_there: statements::filled_in(include_str!("is_set_up.sql"), &names),
            // Those who come at the same time wait: two CREATE … IF NOT EXISTS at once can fail.
            create: format!(
                "SET LOCAL statement_timeout={};\n\
                 SELECT pg_advisory_xact_lock(hashtext('syncguard setupSchema'));\n{tables}",
                timeout.as_millis()
            ),
        }
    }

    /// The row of `report.sql`, and whether nothing is left to be made.
    pub(crate) async fn report(&self, client: &Client) -> Result<(Option<SimpleQueryRow>, bool)> {
        let mut answer = (None, false);
        client
            .alone(async |session: &Session| {
                answer.0 = session.ask(&self.report).await?.pop();
                answer.1 = first_of(&session.ask(&self.is_there).await?) == Some("t");
                Ok(())
            })
            .await?;
        Ok(answer)
    }

    /// Does nothing when everything is there: a role that may not create tables can call it too.
    pub(crate) async fn create(&self, client: &Client) -> Result<()> {
        client
            .alone(async |session: &Session| {
                if first_of(&session.ask(&self.is_there).await?) != Some("t") {
                    session.ask(&self.create).await?;
                }
                Ok(())
            })
            .await
    }
}
