//! Looks for prefixes on the server that contain each other, in a sample of its names.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use super::format::layout::Layout;
use super::format::reply;
use super::format::scripts::{self, Args, Call};
use super::transport::Transport;
use crate::backend::report::Finding;
use crate::error::{ErrorCode, Result};

/// Calls of the script, each of which visits about a thousand names. A cluster has several shards.
const CALLS: usize = 20;
/// Pairs of prefixes that are told.
const TOLD: usize = 3;

const NAME: &str = "prefixes";
const ADVICE: &str = "they share locks: what is the key \"b:x\" under the prefix \"a\" is \"x\" under \
                      \"a:b\". Use prefixes of which none begins with another one and a colon";

pub(super) async fn finding(transport: &Transport, layout: &Layout) -> Finding {
    match seen(transport, layout).await {
        Ok((seen, is_all)) => judged(&own(layout), seen, is_all),
        Err(error) if error.code == ErrorCode::AuthFailed => {
            Finding::ok(NAME, "not known, as the user may not run SCAN")
        }
        Err(_) => Finding::ok(NAME, "not known"),
    }
}

/// The prefixes of this backend: in a cluster there is one for each shard.
fn own(layout: &Layout) -> BTreeSet<String> {
    let shards = layout.shards().iter();
    shards
        .map(|shard| shard.start().trim_end_matches(':').to_owned())
        .collect()
}

/// Prefixes of locks, and whether these are all that have counters.
async fn seen(transport: &Transport, layout: &Layout) -> Result<(BTreeSet<String>, bool)> {
    let shards = layout.shards();
    let mut seen = BTreeSet::new();
    let mut is_all = true;
    for (shard, space) in shards.iter().enumerate() {
        let mut cursor = "0".to_owned();
        for _ in 0..CALLS.div_ceil(shards.len()) {
            let args = [cursor.as_str()];
            let call = Call {
                script: &scripts::PREFIXES,
                keys: &[space.start()],
                args: Args::same(&args),
            };
            let (next, prefixes) = reply::prefixes(transport.run(shard, &call).await?)?;
            seen.extend(prefixes);
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
        is_all &= cursor == "0";
    }
    Ok((seen, is_all))
}

/// The pairs that this backend is part of come first.
fn judged(own: &BTreeSet<String>, seen: BTreeSet<String>, is_all: bool) -> Finding {
    let all = &seen | own;
    let mut pairs = pairs(&all);
    pairs.sort_by_key(|(outer, inner)| !own.contains(*outer) && !own.contains(*inner));
    if pairs.is_empty() {
        let sampled = if is_all {
            ""
        } else {
            " in a sample of the keys"
        };
        return Finding::ok(NAME, format!("none{sampled} contains another"));
    }
    let told: Vec<String> = pairs
        .iter()
        .take(TOLD)
        .map(|(outer, inner)| format!("\"{outer}\" contains \"{inner}\""))
        .collect();
    let more = match pairs.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Finding::ok(NAME, format!("{}{more}", told.join(", "))).warning(ADVICE)
}

/// Each prefix that another one continues after a colon, with the first one that does.
fn pairs(prefixes: &BTreeSet<String>) -> Vec<(&str, &str)> {
    let contained = |outer: &String| {
        // Without a prefix there is no colon either.
        let start = if outer.is_empty() {
            String::new()
        } else {
            format!("{outer}:")
        };
        prefixes
            .range::<str, _>((Excluded(start.as_str()), Unbounded))
            .next()
            .filter(|inner| inner.starts_with(&start))
    };
    prefixes
        .iter()
        .filter_map(|outer| Some((outer.as_str(), contained(outer)?.as_str())))
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
            // As they are in a cluster: the tags keep them apart.
            (&["a:{0}", "a:b:{0}", "a:b:{1}"], &[]),
            (&["a:{0}", "a:{0}:b"], &[("a:{0}", "a:{0}:b")]),
        ] {
            assert_eq!(pairs(&set(prefixes)), expected);
        }
    }

    #[test]
    fn what_is_told() {
        let found = judged(&set(&["a"]), set(&["b"]), true);
        assert_eq!(found, Finding::ok("prefixes", "none contains another"));
        let found = judged(&set(&["a"]), set(&["b"]), false);
        assert!(found.value.contains("sample"));
        let many = ["b", "b:1", "c", "c:1", "d", "d:1", "x", "x:1"];
        let found = judged(&set(&["x"]), set(&many), true);
        assert_eq!(found.verdict, Verdict::Warning);
        assert!(found.value.starts_with(r#""x" contains "x:1", "b""#));
        assert!(found.value.ends_with("and 1 more"), "{}", found.value);
    }
}
