//! Describes the server, the tables and the rights of the role for an operator.

use tokio_postgres::SimpleQueryRow;

use crate::backend::report::Finding;

/// `row` is that of `report.sql`. `is_complete`: nothing is left for `setup` to do.
pub(super) fn findings(row: &SimpleQueryRow, is_complete: bool) -> Vec<Finding> {
    let text = |column| row.try_get(column).ok().flatten().unwrap_or_default();
    let is = |column| text(column) == "t";
    let mut found = vec![
        server(text(0), is(1)),
        persistence(text(2)),
        replication(text(3)),
        schema(is(4), is_complete),
    ];
    if is(4) {
        found.push(rights(text(5), text(6), is(7), is(8)));
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

fn schema(exists: bool, is_complete: bool) -> Finding {
    match (exists, is_complete) {
        (true, true) => Finding::ok("schema", "the tables exist"),
        (true, false) => Finding::ok("schema", "an index or a column is missing").error(
            "run npx syncguard schema --apply or setupSchema(), which create what is missing",
        ),
        (false, _) => Finding::ok("schema", "the tables are missing")
            .error("run npx syncguard schema --apply or setupSchema() once"),
    }
}

fn rights(of_locks: &str, of_counters: &str, may_notify: bool, may_acquire: bool) -> Finding {
    let mut missing = [("lock table", of_locks), ("counter table", of_counters)]
        .into_iter()
        .filter(|(_, rights)| !rights.is_empty())
        .map(|(table, rights)| format!("no {rights} on the {table}"))
        .collect::<Vec<_>>();
    if !may_acquire {
        missing.push("no EXECUTE on the functions of advisory locks".to_owned());
    }
    if !missing.is_empty() {
        return Finding::ok("rights", missing.join(", ")).error("GRANT them to the role");
    }
    if !may_notify {
        return Finding::ok("rights", "no EXECUTE on pg_notify")
            .warning("waiters are not notified of a release, and poll");
    }
    Finding::ok("rights", "the role has those that it needs")
}
