//! Judges what the servers say about themselves: what does it mean for locks?

use std::collections::HashMap;

use crate::backend::report::Finding;

const CRASH: &str = "a crash loses what was written since the last snapshot, including fences: \
                     set appendonly to yes";

/// Returns the worst finding of each kind. `infos` are the answers to INFO of all servers that have
/// locks.
pub(super) fn findings(infos: &[String]) -> Vec<Finding> {
    // One server may have several shards.
    let servers: HashMap<_, _> = infos
        .iter()
        .map(|info| (Info(info).get("run_id"), Info(info)))
        .collect();
    let kinds: [fn(&Info<'_>) -> Finding; 4] = [server, persistence, eviction, replication];
    let worst = |kind| {
        servers
            .values()
            .map(kind)
            .max_by_key(|found: &Finding| found.verdict)
    };
    let mut found: Vec<Finding> = kinds.into_iter().filter_map(worst).collect();
    if let [server, ..] = &mut *found
        && servers.len() > 1
    {
        server.value = format!("{}, masters: {}", server.value, servers.len());
    }
    found
}

/// Returns the finding for a server that does not answer INFO.
pub(super) fn unknown() -> Vec<Finding> {
    let server = Finding::ok("server", "unknown");
    vec![
        server.warning("persistence and eviction are not known, because the user may not run INFO"),
    ]
}

struct Info<'a>(&'a str);

impl<'a> Info<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        self.0
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    }

    fn number(&self, name: &str) -> u64 {
        self.get(name)
            .and_then(|value| value.trim().parse().ok())
            .unwrap_or(0)
    }
}

fn server(info: &Info<'_>) -> Finding {
    let (name, version) = match (info.get("valkey_version"), info.get("redis_version")) {
        (Some(version), _) => ("Valkey", version),
        (None, version) => ("Redis", version.unwrap_or("of an unknown version")),
    };
    let mode = info.get("redis_mode").unwrap_or("standalone");
    Finding::ok("server", format!("{name} {version}, {mode}"))
}

fn persistence(info: &Info<'_>) -> Finding {
    if info.number("aof_enabled") == 0 {
        return Finding::ok("persistence", "no append-only file").warning(CRASH);
    }
    let found = Finding::ok("persistence", "append-only file");
    match info.get("aof_last_write_status") {
        Some("ok") | None => found,
        Some(_) => found.error("the last write to it failed: is the disk full?"),
    }
}

fn eviction(info: &Info<'_>) -> Finding {
    let policy = info.get("maxmemory_policy").unwrap_or("unknown");
    let limit = info.number("maxmemory");
    let found = Finding::ok(
        "eviction",
        match limit {
            0 => format!("{policy}, no maxmemory"),
            bytes => format!("{policy}, maxmemory {} MiB", bytes.div_ceil(1 << 20)),
        },
    );
    // Locks have a TTL, and fence counters have none.
    let victims = match policy.split('-').next() {
        Some("allkeys") => "fence counters, and locks that are held",
        Some("volatile") => "locks that are held",
        _ => return found,
    };
    if limit == 0 {
        let advice = format!("with a maxmemory it would evict {victims}: use noeviction");
        return found.warning(advice);
    }
    found.error(format!(
        "when the memory is full it evicts {victims}: use noeviction"
    ))
}

fn replication(info: &Info<'_>) -> Finding {
    match (info.get("role"), info.number("connected_slaves")) {
        (Some("slave"), _) => Finding::ok("replication", "this is a replica").error(
            "a replica accepts no locks: connect to the master, or through Sentinel or Cluster",
        ),
        (_, 0) => Finding::ok("replication", "no replica"),
        (_, count) => Finding {
            advice: Some(
                "replicas lag behind: a failover can lose the last locks and fences".to_owned(),
            ),
            ..Finding::ok("replication", format!("replicas: {count}"))
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::report::Verdict::{self, Error, Ok, Warning};

    fn judged(name: &str, info: &str) -> (Verdict, String) {
        let info = info.replace(' ', "\r\n");
        let found = findings(&[info]);
        let found = found.into_iter().find(|found| found.name == name).unwrap();
        (found.verdict, found.advice.unwrap_or_default())
    }

    #[test]
    fn each_policy_by_what_it_can_evict() {
        let policy = |policy: &str, limit: u64| {
            let info = format!("maxmemory:{limit} maxmemory_policy:{policy}");
            judged("eviction", &info)
        };
        assert_eq!(policy("noeviction", 1 << 30), (Ok, String::new()));
        assert_eq!(policy("noeviction", 0).0, Ok);
        for order in ["lru", "lfu", "random"] {
            let (verdict, advice) = policy(&format!("allkeys-{order}"), 1 << 30);
            assert!(verdict == Error && advice.contains("fence counters"));
            let (verdict, advice) = policy(&format!("volatile-{order}"), 1 << 30);
            assert!(verdict == Error && !advice.contains("fence counters"));
            assert_eq!(policy(&format!("allkeys-{order}"), 0).0, Warning);
        }
        assert_eq!(policy("volatile-ttl", 1 << 20).0, Error);
    }

    #[test]
    fn persistence_and_roles() {
        assert_eq!(judged("persistence", "aof_enabled:0").0, Warning);
        let written = "aof_enabled:1 aof_last_write_status:";
        assert_eq!(judged("persistence", &format!("{written}ok")).0, Ok);
        assert_eq!(judged("persistence", &format!("{written}err")).0, Error);
        assert_eq!(judged("replication", "role:slave").0, Error);
        let replicas = judged("replication", "role:master connected_slaves:2");
        assert!(replicas.0 == Ok && replicas.1.contains("failover"));
    }

    #[test]
    fn of_several_servers_the_worst_and_each_once() {
        let info = |run_id, aof| format!("run_id:{run_id}\r\nredis_version:7\r\naof_enabled:{aof}");
        let found = findings(&[info("a", 1), info("b", 0), info("c", 1), info("a", 1)]);
        assert_eq!(found.len(), 4);
        assert_eq!(found[0].value, "Redis 7, standalone, masters: 3");
        assert_eq!(found[1].verdict, Warning);
    }

    #[test]
    fn names_and_versions() {
        let value = |info: &str| findings(&[info.replace(' ', "\r\n")])[0].value.clone();
        assert_eq!(
            value("redis_version:7.0.15 redis_mode:cluster"),
            "Redis 7.0.15, cluster"
        );
        assert_eq!(
            value("redis_version:7.2.4 valkey_version:8.1.0"),
            "Valkey 8.1.0, standalone"
        );
    }
}
