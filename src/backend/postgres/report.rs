//! Describes the server, the tables and the rights of the role for an operator.

use tokio_postgres::SimpleQueryRow;

use super::sql::SetUp;
use crate::backend::report::Finding;

/// `row` is that of `report.sql`.
pub(super) fn findings(row: &SimpleQueryRow, set_up: SetUp) -> Vec<Finding> {
    let text = |column| row.try_get(column).ok().flatten().unwrap_or_default();
    let is = |column| text(column) == "t";
    let mut found = vec![
        server(text(0), is(1)),
        persistence(text(2)),
        replication(text(3)),
        schema(is(4), set_up),
    ];
    if is(4) {
        let missing = MissingRights {
            locks: text(5),
            counters: text(6),
            holders: text(9),
        };
        found.push(rights(&missing, is(7), is(8)));
    }
    found
}

fn server(version: &str, in_recovery: bool) -> Finding {
    let found = Finding::ok("server", format!("PostgreSQL {version}"));
    if in_recovery {
        return found
            .error("it is a standby, on which no lock can be acquired: connect to the primary");
    }
    found
}

fn persistence(fsync: &str) -> Finding {
    let found = Finding::ok("persistence", format!("fsync is {fsync}"));
    if fsync == "off" {
        return found.warning("a crash of the host can damage the tables and lose fences");
    }
    found
}

fn replication(standbys: &str) -> Finding {
    let value = match standbys {
        "0" => "no standby".to_owned(),
        count => format!("standbys: {count}"),
    };
    let found = Finding::ok("replication", value);
    if standbys == "0" {
        return found;
    }
    Finding {
        advice: Some(
            "unless they are synchronous, a failover can lose the latest locks and fences"
                .to_owned(),
        ),
        ..found
    }
}

fn schema(exists: bool, set_up: SetUp) -> Finding {
    if !exists {
        return Finding::ok("schema", "the tables are missing")
            .error("run npx syncguard schema --apply or setupSchema() once");
    }
    match set_up {
        SetUp {
            locks: true,
            labels: true,
            sharing,
        } => match sharing {
            true => Finding::ok("schema", "the tables exist"),
            false => Finding::ok("schema", "the table of shared keys is missing").warning(
                "keys cannot be shared before npx syncguard schema --apply or setupSchema() creates it",
            ),
        },
        _ => Finding::ok("schema", "an index or a column is missing").error(
            "run npx syncguard schema --apply or setupSchema(), which create what is missing",
        ),
    }
}

/// The rights that the role lacks on each table.
struct MissingRights<'a> {
    locks: &'a str,
    counters: &'a str,
    holders: &'a str,
}

fn rights(on: &MissingRights<'_>, may_notify: bool, may_acquire: bool) -> Finding {
    let lacks = |table: &str, rights: &str| {
        (!rights.is_empty()).then(|| format!("no {rights} on the {table}"))
    };
    let mut missing: Vec<_> = [
        lacks("lock table", on.locks),
        lacks("counter table", on.counters),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !may_acquire {
        missing.push("no EXECUTE on the functions of advisory locks".to_owned());
    }
    let of_holders = lacks("table of shared keys", on.holders);
    if !missing.is_empty() {
        missing.extend(of_holders);
        return Finding::ok("rights", missing.join(", ")).error("GRANT them to the role");
    }
    if let Some(missing) = of_holders {
        return Finding::ok("rights", missing)
            .warning("keys cannot be shared: GRANT them to the role");
    }
    if !may_notify {
        return Finding::ok("rights", "no EXECUTE on pg_notify")
            .warning("waiters are not notified of a release, and poll");
    }
    Finding::ok("rights", "the role has those that it needs")
}
