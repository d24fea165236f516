//! Creates the tables, and checks what is missing.

use tokio_postgres::SimpleQueryRow;

use super::statements::{ADVISORY_LOCK_CLASS, Arg, COUNTERS, LOCKS, Statement, without_comments};
use crate::backend::postgres::config::Checked;
use crate::backend::postgres::connection::first_of;
use crate::backend::postgres::connections::{Connections, RequestKind};
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
    /// The quoted names of the lock table and the counter table.
    tables: [String; 2],
    is_set_up: Statement,
    report: Statement,
    /// The statements that create the tables. They change nothing if the tables exist.
    pub sql: String,
}

impl Schema {
    pub(crate) fn new(config: &Checked) -> Self {
        let (locks, counters) = (config.locks.quoted(), config.counters.quoted());
        // In that file a space precedes the name of a table, which is also a part of index names.
        let mut sql = include_str!("schema.sql").to_owned();
        let mut is_set_up = without_comments(include_str!("is_set_up.sql"));
        if config.labelled {
            sql.push_str(LABEL_COLUMN);
            is_set_up.push_str(HAS_LABEL_COLUMN);
        }
        for (name, quoted) in [
            (COUNTERS.to_owned(), &counters),
            (LOCKS.to_owned(), &locks),
            (
                format!("idx_{LOCKS}_lock_id"),
                &config.locks.quoted_index("lock_id"),
            ),
            (
                format!("idx_{LOCKS}_expires"),
                &config.locks.quoted_index("expires"),
            ),
        ] {
            sql = sql.replace(&format!(" {name}"), &format!(" {quoted}"));
        }
        Self {
            tables: [locks, counters],
            is_set_up: Statement::unprepared(is_set_up),
            report: Statement::unprepared(without_comments(include_str!("report.sql"))),
            sql,
        }
    }

    /// Returns the row of `report.sql`.
    pub(crate) async fn report(&self, connections: &Connections) -> Result<Option<SimpleQueryRow>> {
        Ok(self.ask(connections, &self.report).await?.pop())
    }

    /// Returns whether everything has been created.
    pub(crate) async fn is_set_up(&self, connections: &Connections) -> Result<bool> {
        let answer = self.ask(connections, &self.is_set_up).await?;
        Ok(first_of(&answer) == Some("t"))
    }

    /// Creates what is missing. If nothing is, a role that may not create tables can call it too.
    pub(crate) async fn create(&self, connections: &Connections) -> Result<()> {
        if self.is_set_up(connections).await? {
            return Ok(());
        }
        // The advisory lock makes concurrent calls wait: two CREATE … IF NOT EXISTS at once can fail.
        let create = format!(
            "SELECT pg_advisory_xact_lock({ADVISORY_LOCK_CLASS}, hashtext('syncguard setupSchema'));\n{}",
            self.sql
        );
        match connections.query(&create).await {
            // An earlier version of this package, which takes another advisory lock, came first.
            Err(error) if error::exists_already(&error) => connections.query(&create).await,
            created => created,
        }
        .map(drop)
    }

    async fn ask(
        &self,
        connections: &Connections,
        statement: &Statement,
    ) -> Result<Vec<SimpleQueryRow>> {
        let [locks, counters] = &self.tables;
        let args = [Arg::Text(locks), Arg::Text(counters)];
        connections
            .run(RequestKind::Maintenance, statement, &args)
            .await
    }
}
