//! Creates the tables, and checks what is missing.

use std::time::Duration;

use tokio_postgres::SimpleQueryRow;

use super::statements::{self, ADVISORY_LOCK_CLASS, Arg, COUNTERS, LOCKS};
use crate::backend::postgres::config::Checked;
use crate::backend::postgres::connection::{Connection, first_of};
use crate::backend::postgres::connections::Connections;
use crate::backend::postgres::error;
use crate::error::Result;

/// The column for holder labels. Programs that insert by column names, as all that share these tables
/// do, need not know about it. Adding a column that may be null does not touch any row.
const LABEL_COLUMN: &str = "
-- Who holds a lock: its lockId, a space, and the label that the holder gave itself.
ALTER TABLE syncguard_locks ADD COLUMN IF NOT EXISTS holder_label TEXT;
";
const HAS_LABEL_COLUMN: &str = " AND EXISTS (
    SELECT FROM pg_attribute
    WHERE attrelid = to_regclass($1::text) AND attname = 'holder_label' AND NOT attisdropped
)";

pub(crate) struct Schema {
    is_set_up: String,
    report: String,
    create_tables: String,
    timeout: Duration,
}

impl Schema {
    pub(crate) fn new(config: &Checked) -> Self {
        let (locks, counters) = (&config.locks, &config.counters);
        let (quoted_locks, quoted_counters) = (locks.quoted(), counters.quoted());
        let names = [Arg::Text(&quoted_locks), Arg::Text(&quoted_counters)];
        // In that file a space precedes the name of a table, which is also a part of index names.
        let label = if config.labelled { LABEL_COLUMN } else { "" };
        let tables = format!("{}{label}", include_str!("schema.sql"))
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
            is_set_up: statements::filled_in(
                &format!(
                    "{}{}",
                    include_str!("is_set_up.sql"),
                    if config.labelled {
                        HAS_LABEL_COLUMN
                    } else {
                        ""
                    }
                ),
                &names,
            ),
            create_tables: tables,
            timeout: config.operation_timeout,
        }
    }

    /// The statements that create the tables. They change nothing if the tables exist.
    pub(crate) fn sql(&self) -> &str {
        &self.create_tables
    }

    /// Returns the row of `report.sql`, and whether everything has been created.
    pub(crate) async fn report(
        &self,
        connections: &Connections,
    ) -> Result<(Option<SimpleQueryRow>, bool)> {
        let mut answer = (None, false);
        connections
            .with_dedicated(async |connection: &Connection| {
                answer.0 = connection.query(&self.report).await?.pop();
                answer.1 = first_of(&connection.query(&self.is_set_up).await?) == Some("t");
                Ok(())
            })
            .await?;
        Ok(answer)
    }

    /// Creates what is missing. If nothing is, a role that may not create tables can call it too.
    pub(crate) async fn create(&self, connections: &Connections) -> Result<()> {
        // The advisory lock makes concurrent calls wait: two CREATE … IF NOT EXISTS at once can fail.
        let create = format!(
            "SET LOCAL statement_timeout={};\n\
             SELECT pg_advisory_xact_lock({ADVISORY_LOCK_CLASS}, hashtext('syncguard setupSchema'));\n{}",
            self.timeout.as_millis(),
            self.create_tables
        );
        connections
            .with_dedicated(async |connection: &Connection| {
                if first_of(&connection.query(&self.is_set_up).await?) == Some("t") {
                    return Ok(());
                }
                match connection.query(&create).await {
                    // An earlier version of this package, which takes another advisory lock, came first.
                    Err(error) if error::exists_already(&error) => connection.query(&create).await,
                    created => created,
                }
                .map(drop)
            })
            .await
    }
}
