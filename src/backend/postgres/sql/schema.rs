//! Creates the tables, and checks what is missing.

use tokio_postgres::SimpleQueryRow;

use super::statements::{ADVISORY_LOCK_CLASS, Arg, Statement, without_comments};
use super::table::{HOLDERS, LOCKS, Tables, replace_words};
use crate::backend::postgres::config::Checked;
use crate::backend::postgres::connections::{Connections, RequestKind};
use crate::backend::postgres::error;
use crate::error::Result;

/// The first line of the part of `schema.sql` for shared keys. Databases that were set up by earlier
/// versions lack it.
const SHARING_PART: &str = "-- The holders of shared keys";

/// The column for holder labels. Programs that insert by column names, as all that share these tables
/// do, need not know about it. Adding a column that may be null does not touch any row.
const LABEL_COLUMN: &str = "
-- Who holds a lock: its lockId, a space, and the label that the holder gave itself.
ALTER TABLE syncguard_locks ADD COLUMN IF NOT EXISTS holder_label TEXT;
";

/// Creates the tables. Nothing but what is missing is created, because `CREATE INDEX IF NOT EXISTS` waits
/// for those who use the table even if there is nothing to do.
pub(crate) struct Schema {
    /// The quoted names of the lock table, the counter table and the table of holders.
    tables: [String; 3],
    is_set_up: Statement,
    report: Statement,
    locks_sql: String,
    sharing_sql: String,
    /// None if there are no labels.
    labels_sql: Option<String>,
}

/// Which parts of the schema exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SetUp {
    /// What exclusive locks need.
    pub locks: bool,
    pub sharing: bool,
    /// The column for labels, if there are labels.
    pub labels: bool,
}

/// What exists after a set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Created {
    All,
    /// All but the table for shared keys, which the role may not create.
    WithoutSharing,
}

impl SetUp {
    pub(crate) fn is_complete(self) -> bool {
        self.locks && self.sharing && self.labels
    }
}

impl Schema {
    pub(crate) fn new(config: &Checked) -> Self {
        let tables = &config.tables;
        let named = |sql: &str| replace_words(sql, |word| name_of(tables, word));
        let file = include_str!("schema.sql");
        let (locks, sharing) = file.split_at(file.find(SHARING_PART).unwrap_or(file.len()));
        Self {
            is_set_up: Statement::unprepared(without_comments(include_str!("is_set_up.sql"))),
            report: Statement::unprepared(without_comments(include_str!("report.sql"))),
            locks_sql: named(locks),
            sharing_sql: named(sharing),
            labels_sql: config.labelled.then(|| named(LABEL_COLUMN)),
            tables: [&tables.locks, &tables.counters, &tables.holders].map(|table| table.quoted()),
        }
    }

    /// Returns the statements that create the tables. They change nothing if the tables exist.
    pub(crate) fn sql(&self) -> String {
        self.sql_for(SetUp {
            locks: false,
            sharing: false,
            labels: false,
        })
    }

    fn sql_for(&self, exists: SetUp) -> String {
        let part = |exists: bool, sql: &str| if exists { "" } else { sql }.to_owned();
        part(exists.locks, &self.locks_sql)
            + &part(exists.sharing, &self.sharing_sql)
            + &part(exists.labels, self.labels_sql.as_deref().unwrap_or(""))
    }

    /// Returns the quoted name of the table of holders.
    pub(crate) fn holders(&self) -> &str {
        &self.tables[2]
    }

    /// Returns the row of `report.sql`.
    pub(crate) async fn report(&self, connections: &Connections) -> Result<Option<SimpleQueryRow>> {
        Ok(self.ask(connections, &self.report).await?.pop())
    }

    pub(crate) async fn set_up(&self, connections: &Connections) -> Result<SetUp> {
        let answer = self.ask(connections, &self.is_set_up).await?;
        let is = |column| {
            let row = answer.first();
            row.and_then(|row| row.try_get(column).ok()?) == Some("t")
        };
        Ok(SetUp {
            locks: is(0),
            sharing: is(1),
            labels: is(2) || self.labels_sql.is_none(),
        })
    }

    /// Creates what is missing. If nothing is, a role that may not create tables can call it too. If only
    /// the table for shared keys is missing, such a role can do without it: everything else works, as it
    /// did before there were shared keys.
    pub(crate) async fn create(&self, connections: &Connections) -> Result<Created> {
        let exists = self.set_up(connections).await?;
        if exists.is_complete() {
            return Ok(Created::All);
        }
        // The advisory lock makes concurrent calls wait: two CREATE … IF NOT EXISTS at once can fail.
        let create = format!(
            "SELECT pg_advisory_xact_lock({ADVISORY_LOCK_CLASS}, hashtext('syncguard setupSchema'));\n{}",
            self.sql_for(exists)
        );
        let created = match connections.query(&create).await {
            // An earlier version of this package, which takes another advisory lock, came first.
            Err(error) if error::exists_already(&error) => connections.query(&create).await,
            created => created,
        };
        match created {
            Err(error) if exists.locks && exists.labels && error::is_forbidden(&error) => {
                Ok(Created::WithoutSharing)
            }
            created => created.map(|_| Created::All),
        }
    }

    async fn ask(
        &self,
        connections: &Connections,
        statement: &Statement,
    ) -> Result<Vec<SimpleQueryRow>> {
        let args: Vec<_> = self.tables.iter().map(|table| Arg::Text(table)).collect();
        connections
            .run(RequestKind::Maintenance, statement, &args)
            .await
    }
}

/// Returns the quoted name of a table or an index that `schema.sql` calls by this name.
fn name_of(tables: &Tables, name: &str) -> Option<String> {
    let index_of = |table: &str| {
        name.strip_prefix("idx_")?
            .strip_prefix(table)?
            .strip_prefix('_')
    };
    match (index_of(HOLDERS), index_of(LOCKS)) {
        (Some(suffix), _) => Some(tables.holders.quoted_index(suffix)),
        (None, Some(suffix)) => Some(tables.locks.quoted_index(suffix)),
        (None, None) => tables.quoted(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::postgres::PostgresConfig;

    fn schema(config: &str) -> Schema {
        let config = PostgresConfig {
            url: Some("postgres://u@h/d".to_owned()),
            ..serde_json::from_str(config).unwrap()
        };
        Schema::new(&config.check().unwrap())
    }

    #[test]
    fn only_what_is_missing_is_created() {
        let schema = schema(r#"{"tableName":"app.locks","holderLabel":true}"#);
        let all = schema.sql();
        for name in [
            r#"TABLE IF NOT EXISTS "app"."locks" ("#,
            r#"INDEX IF NOT EXISTS "idx_locks_lock_id" ON "app"."locks" ("#,
            r#"TABLE IF NOT EXISTS "app"."locks_holders" ("#,
            r#"INDEX IF NOT EXISTS "idx_locks_holders_key" ON "app"."locks_holders" ("#,
            "ADD COLUMN IF NOT EXISTS holder_label",
        ] {
            assert!(all.contains(name), "{name} is not in {all}");
        }
        let sharing = schema.sql_for(SetUp {
            locks: true,
            sharing: false,
            labels: true,
        });
        assert!(sharing.starts_with(SHARING_PART));
        assert_eq!(sharing.matches("CREATE").count(), 3);
        assert!(all.contains(&sharing));
    }

    #[test]
    fn without_labels_there_is_no_column_for_them() {
        assert!(!schema("{}").sql().contains("ALTER TABLE"));
    }
}
