//! The options as JavaScript passes them, and their validation.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::sql::{COUNTERS, LOCKS, Table, Tables};
use super::target::{Target, resolve};
use crate::backend::credentials::CredentialsProvider;
use crate::backend::tls::TlsOptions;
use crate::error::{Error, Result};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PostgresConfig {
    pub url: Option<String>,
    /// libpq's keywords from the options. They override those of the URL.
    pub params: BTreeMap<String, String>,
    /// libpq's keywords from the environment. The URL and the options override them.
    pub defaults: BTreeMap<String, String>,
    /// TLS as Node.js describes it. If present, `sslmode` is ignored.
    pub tls: Option<TlsOptions>,
    pub table_name: String,
    pub fence_table_name: String,
    pub cleanup_in_is_locked: bool,
    pub pool_size: Option<u32>,
    /// A connection that was idle for this long is closed.
    pub idle_timeout_ms: u64,
    /// `false` for a pooler that is known to keep no session: prepared statements are then never used.
    pub prepare: bool,
    /// The id of the program's function that returns the password for each new connection.
    pub ask_credentials: Option<u64>,
    #[serde(skip)]
    pub credentials: Option<CredentialsProvider>,
    pub connect_timeout_ms: Option<u64>,
    pub operation_timeout_ms: u64,
    /// Whether locks are stored with a label, for which the lock table needs a column.
    pub holder_label: bool,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self {
            url: None,
            params: BTreeMap::new(),
            defaults: BTreeMap::new(),
            tls: None,
            table_name: LOCKS.to_owned(),
            fence_table_name: COUNTERS.to_owned(),
            cleanup_in_is_locked: false,
            pool_size: None,
            idle_timeout_ms: 60_000,
            prepare: true,
            ask_credentials: None,
            credentials: None,
            connect_timeout_ms: None,
            operation_timeout_ms: 5000,
            holder_label: false,
        }
    }
}

/// The validated options.
pub(super) struct Checked {
    pub target: Target,
    pub tables: Tables,
    pub cleanup_in_is_locked: bool,
    pub pool_size: usize,
    pub idle_timeout: Duration,
    pub prepare: bool,
    pub credentials: Option<CredentialsProvider>,
    pub connect_timeout: Duration,
    pub operation_timeout: Duration,
    pub labelled: bool,
}

impl PostgresConfig {
    pub(super) fn check(self) -> Result<Checked> {
        let locks = Table::parse("tableName", &self.table_name)?;
        let counters = Table::parse("fenceTableName", &self.fence_table_name)?;
        let target = resolve(self.defaults, self.url.as_deref(), self.params, self.tls)?;
        let schema = target.foreign.schema.as_deref();
        let tables = Tables::new(locks.or_in(schema)?, counters.or_in(schema)?)?;
        let connect_timeout = match self.connect_timeout_ms {
            Some(ms) => timeout("connectTimeoutMs", ms)?,
            None => target.connect_timeout.unwrap_or(Duration::from_secs(5)),
        };
        let pool_size = self.pool_size.or(target.foreign.pool_size).unwrap_or(10);
        if !(1..=1000).contains(&pool_size) {
            return Err(Error::invalid_argument(
                "poolSize must be an integer from 1 to 1000",
            ));
        }
        Ok(Checked {
            prepare: self.prepare && !target.foreign.unprepared,
            credentials: self.credentials,
            target,
            tables,
            cleanup_in_is_locked: self.cleanup_in_is_locked,
            pool_size: pool_size as usize,
            idle_timeout: timeout("idleTimeoutMs", self.idle_timeout_ms)?,
            connect_timeout,
            operation_timeout: timeout("operationTimeoutMs", self.operation_timeout_ms)?,
            labelled: self.holder_label,
        })
    }
}

fn timeout(option: &str, ms: u64) -> Result<Duration> {
    // The maximum is that of PostgreSQL's statement_timeout.
    if (1..=i32::MAX as u64).contains(&ms) {
        Ok(Duration::from_millis(ms))
    } else {
        Err(Error::invalid_argument(format!(
            "{option} must be a positive integer (milliseconds), at most {}",
            i32::MAX
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    fn check(json: &str) -> Result<Checked> {
        serde_json::from_str::<PostgresConfig>(json)
            .unwrap()
            .check()
    }

    #[test]
    fn wrong_options_are_refused_at_once() {
        for json in [
            r#"{"tableName":""}"#,
            r#"{"tableName":"a; DROP TABLE b"}"#,
            r#"{"tableName":"t","fenceTableName":"t"}"#,
            r#"{"poolSize":0}"#,
            r#"{"operationTimeoutMs":0}"#,
            r#"{"connectTimeoutMs":9999999999}"#,
            r#"{"url":"http://x"}"#,
        ] {
            assert_eq!(
                check(json).err().unwrap().code,
                ErrorCode::InvalidArgument,
                "{json}"
            );
        }
    }

    #[test]
    fn a_prisma_url_sets_schema_and_pool_size_unless_the_options_do() {
        let url = r#""url":"postgres://u@h/d?schema=my-app&connection_limit=3&pgbouncer=true""#;
        let plain = check(&format!("{{{url}}}")).unwrap();
        assert_eq!(plain.tables.locks.quoted(), r#""my-app"."syncguard_locks""#);
        assert_eq!(
            plain.tables.counters.quoted(),
            r#""my-app"."syncguard_fence_counters""#
        );
        assert_eq!((plain.pool_size, plain.prepare), (3, false));

        let own = check(&format!(
            r#"{{{url},"tableName":"own.locks","poolSize":7}}"#
        ))
        .unwrap();
        assert_eq!(own.tables.locks.quoted(), r#""own"."locks""#);
        assert_eq!(own.pool_size, 7);

        for bad in ["a%22b", "a.b", "%241", "%20"] {
            let url = format!(r#"{{"url":"postgres://u@h/d?schema={bad}"}}"#);
            let error = check(&url).err().unwrap();
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{bad}");
        }
        let same =
            r#"{"url":"postgres://u@h/d?schema=app","tableName":"app.t","fenceTableName":"t"}"#;
        assert!(check(same).is_err());
    }

    #[test]
    fn the_connect_timeout_of_the_url_applies_unless_the_option_is_set() {
        let url = r#""url":"postgres://u@h/d?connect_timeout=7""#;
        let timeout = |json: String| check(&json).unwrap().connect_timeout;
        assert_eq!(timeout(format!("{{{url}}}")), Duration::from_secs(7));
        assert_eq!(
            timeout(format!(r#"{{{url},"connectTimeoutMs":100}}"#)),
            Duration::from_millis(100)
        );
    }
}
