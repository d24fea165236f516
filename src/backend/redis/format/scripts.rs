//! The Lua scripts and how they are called.

use std::sync::LazyLock;

/// The tolerance as the documented arguments contain it. Other implementations send the same
/// arguments, and mocks of a client expect them.
pub(crate) const TOLERANCE_MS: &str = "1000";

pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) hash: String,
}

/// Joins files of `scripts/` to one script.
macro_rules! script {
    ($name:literal: $($part:literal),+) => {
        LazyLock::new(|| {
            let text = concat!(
                include_str!("scripts/stored.lua"),
                $(include_str!(concat!("scripts/", $part, ".lua"))),+
            );
            Script {
                name: $name,
                text,
                hash: redis::Script::new(text).get_hash().to_owned(),
            }
        })
    };
}

type Static = LazyLock<Script>;

pub(crate) static ACQUIRE: Static = script!("acquire": "acquire", "acquire_one");
/// Like [`ACQUIRE`], for a waiter that leaves its mark if the key is shared.
pub(crate) static ACQUIRE_MARKING: Static =
    script!("acquireMarking": "shared", "acquire", "acquire_marking");
/// Acquires a share of a key.
pub(crate) static SHARE: Static = script!("share": "shared", "acquire", "share", "share_one");
pub(crate) static UNMARK: Static = script!("unmark": "shared", "unmark");
pub(crate) static RELEASE: Static = script!("release": "shared", "release", "release_one");
/// Any number of calls of [`ACQUIRE`], [`SHARE`] and [`RELEASE`].
pub(crate) static TOGETHER: Static =
    script!("together": "shared", "acquire", "share", "release", "together");
pub(crate) static EXTEND: Static = script!("extend": "shared", "extend");
pub(crate) static LOOKUP: Static = script!("lookup": "shared", "lookup");
pub(crate) static IS_LOCKED: Static = script!("isLocked": "shared", "remove", "is_locked");
pub(crate) static FORCE_RELEASE: Static =
    script!("forceRelease": "shared", "remove", "force_release");
pub(crate) static LIST: Static = script!("list": "list");
pub(crate) static READ_SHARED: Static = script!("readShared": "read_shared");
pub(crate) static PREFIXES: Static = script!("prefixes": "prefixes");
pub(crate) static INFO: Static = script!("info": "info");

/// One call of a script.
pub(crate) struct Call<'a> {
    pub(crate) script: &'static Script,
    pub(crate) keys: &'a [&'a str],
    pub(crate) args: &'a [&'a str],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::fence::FENCE_MAX;
    use crate::lock::share::MARK_LEASE_MS;
    use crate::lock::time::TIME_TOLERANCE_MS;

    #[test]
    fn constants_are_those_of_the_core() {
        let tolerance = format!("local TOLERANCE_MS = {TIME_TOLERANCE_MS}\n");
        assert!(ACQUIRE.text.contains(&tolerance));
        assert_eq!(TOLERANCE_MS, TIME_TOLERANCE_MS.to_string());
        let limit = format!("number > {FENCE_MAX} ");
        assert!(ACQUIRE.text.contains(&limit));
        let lease = format!("local MARK_LEASE_MS = {MARK_LEASE_MS}\n");
        assert!(ACQUIRE_MARKING.text.contains(&lease));
    }
}
