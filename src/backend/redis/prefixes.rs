//! Finds prefixes that contain each other, in a sample of the names on the server.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use super::backend::RedisBackend;
use super::format::keys::separator;
use super::format::layout::Layout;
use super::format::reply;
use super::format::scripts;
use crate::backend::report::Finding;
use crate::error::{ErrorCode, Result};

/// The number of calls for all shards. Each call visits about a thousand names.
const MAX_CALLS: usize = 20;
/// The number of pairs that the finding names.
const MAX_NAMED: usize = 3;

const NAME: &str = "prefixes";
const ADVICE: &str = "these prefixes share locks: the key \"b:x\" under the prefix \"a\" is the key \"x\" under \
                      \"a:b\". Use prefixes of which none begins with another one and a colon";

pub(super) async fn finding(backend: &RedisBackend) -> Finding {
    match find(backend).await {
        Ok((found, is_all)) => judge(&own_prefixes(&backend.layout), found, is_all),
        Err(error) if error.code == ErrorCode::AuthFailed => {
            Finding::ok(NAME, "not known, because the user may not run SCAN")
        }
        Err(_) => Finding::ok(NAME, "not known"),
    }
}

/// Returns the prefixes of this backend. In a cluster each shard has one.
fn own_prefixes(layout: &Layout) -> BTreeSet<String> {
    let shards = layout.shards().iter();
    shards
        .map(|shard| shard.start().trim_end_matches(':').to_owned())
        .collect()
}

/// Returns prefixes of locks, and whether these are all prefixes that have a fence counter.
async fn find(backend: &RedisBackend) -> Result<(BTreeSet<String>, bool)> {
    let shards = backend.layout.shards();
    let mut found = BTreeSet::new();
    let mut is_all = true;
    for (shard, space) in shards.iter().enumerate() {
        let mut cursor = "0".to_owned();
        for _ in 0..MAX_CALLS.div_ceil(shards.len()) {
            let (keys, args) = ([space.start()], [cursor.as_str()]);
            let reply = backend.run(shard, &scripts::PREFIXES, &keys, &args);
            let (next, prefixes) = reply::prefixes(reply.await?)?;
            found.extend(prefixes);
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
        is_all &= cursor == "0";
    }
    Ok((found, is_all))
}

/// Names the pairs that contain each other. Those of this backend come first.
fn judge(own: &BTreeSet<String>, found: BTreeSet<String>, is_all: bool) -> Finding {
    let all = &found | own;
    let mut pairs = pairs(&all);
    pairs.sort_by_key(|(outer, inner)| !own.contains(*outer) && !own.contains(*inner));
    let named = |(outer, inner): &(&str, &str)| format!("\"{outer}\" contains \"{inner}\"");
    let named: Vec<String> = pairs.iter().take(MAX_NAMED).map(named).collect();
    let named = named.join(", ");
    match pairs.len() {
        0 if is_all => Finding::ok(NAME, "none contains another"),
        0 => Finding::ok(NAME, "none in a sample of the keys contains another"),
        1..=MAX_NAMED => Finding::ok(NAME, named).warning(ADVICE),
        more => {
            let more = more - MAX_NAMED;
            Finding::ok(NAME, format!("{named}, and {more} more")).warning(ADVICE)
        }
    }
}

/// Returns each prefix that another one continues after a colon, with the first one that does.
fn pairs(prefixes: &BTreeSet<String>) -> Vec<(&str, &str)> {
    let pair = |outer: &'_ String| {
        let start = format!("{outer}{}", separator(outer));
        let after = (Excluded(start.as_str()), Unbounded);
        let inner = prefixes.range::<str, _>(after).next()?;
        inner.starts_with(&start).then_some(inner)
    };
    let outer = prefixes.iter();
    outer
        .filter_map(|outer| Some((outer.as_str(), pair(outer)?.as_str())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::report::Verdict;

    fn set(prefixes: &[&str]) -> BTreeSet<String> {
        prefixes.iter().copied().map(str::to_owned).collect()
    }

    #[test]
    fn prefixes_that_contain_each_other() {
        for (prefixes, expected) in [
            (&["a", "ab", "b"][..], &[][..]),
            (&["a", "a-b", "a:b", "ab"], &[("a", "a:b")]),
            (&["a", "a:b", "a:b:c"], &[("a", "a:b"), ("a:b", "a:b:c")]),
            (&["", "a", "b"], &[("", "a")]),
            // In a cluster the tags separate them.
            (&["a:{0}", "a:b:{0}", "a:b:{1}"], &[]),
            (&["a:{0}", "a:{0}:b"], &[("a:{0}", "a:{0}:b")]),
        ] {
            assert_eq!(pairs(&set(prefixes)), expected);
        }
    }

    #[test]
    fn the_finding_names_the_own_pairs_first() {
        let found = judge(&set(&["a"]), set(&["b"]), true);
        assert_eq!(found, Finding::ok("prefixes", "none contains another"));
        let found = judge(&set(&["a"]), set(&["b"]), false);
        assert!(found.value.contains("sample"));
        let many = ["b", "b:1", "c", "c:1", "d", "d:1", "x", "x:1"];
        let found = judge(&set(&["x"]), set(&many), true);
        assert_eq!(found.verdict, Verdict::Warning);
        assert!(found.value.starts_with(r#""x" contains "x:1", "b""#));
        assert!(found.value.ends_with("and 1 more"), "{}", found.value);
    }
}
