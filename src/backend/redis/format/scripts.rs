//! The Lua scripts and how they are called.

use std::sync::LazyLock;

/// As the documented forms are told.
pub(crate) const TOLERANCE_MS: &str = "1000";

/// How a script is given its arguments, and how it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// For our own connection.
    Lean,
    /// For a client of the user's: other implementations send the same, and mocks expect it. For
    /// scripts that are not documented it is the same as the other.
    Documented,
}

pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) lean: Code,
    pub(crate) documented: Code,
}

pub(crate) struct Code {
    pub(crate) text: &'static str,
    pub(crate) hash: String,
}

impl Code {
    fn new(text: &'static str) -> Self {
        let hash = redis::Script::new(text).get_hash().to_owned();
        Self { text, hash }
    }
}

macro_rules! code {
    ($arguments:literal, $($part:literal),+) => {
        Code::new(concat!(
            include_str!("scripts/stored.lua"),
            include_str!(concat!("scripts/arguments/", $arguments, ".lua")),
            $(include_str!(concat!("scripts/", $part, ".lua"))),+
        ))
    };
}

macro_rules! script {
    ($name:literal: $($part:literal),+) => {
        script!($name, "lean": $($part),+)
    };
    ($name:literal, $documented:literal: $($part:literal),+) => {
        LazyLock::new(|| Script {
            name: $name,
            lean: code!("lean", $($part),+),
            documented: code!($documented, $($part),+),
        })
    };
}

type Static = LazyLock<Script>;

pub(crate) static ACQUIRE: Static =
    script!("acquire", "documented_acquire": "acquire", "acquire_one");
pub(crate) static RELEASE: Static = script!("release", "documented": "release", "release_one");
/// Calls of the two above, any number of them.
pub(crate) static TOGETHER: Static = script!("together": "acquire", "release", "together");
pub(crate) static EXTEND: Static = script!("extend", "documented": "extend");
pub(crate) static LOOKUP: Static = script!("lookup", "documented": "lookup");
pub(crate) static IS_LOCKED: Static = script!("isLocked": "lock_id", "is_locked");
pub(crate) static LIST: Static = script!("list": "list");
pub(crate) static FORCE_RELEASE: Static = script!("forceRelease": "lock_id", "force_release");
pub(crate) static INFO: Static = script!("info": "info");
pub(crate) static PREFIXES: Static = script!("prefixes": "prefixes");
pub(crate) static CLEANUP: Static = script!("cleanup": "cleanup");

/// One call of a script.
pub(crate) struct Call<'a> {
    pub(crate) script: &'static Script,
    pub(crate) keys: &'a [&'a str],
    pub(crate) args: Args<'a>,
}

/// The arguments for each form of a script.
pub(crate) struct Args<'a> {
    pub(crate) lean: &'a [&'a str],
    pub(crate) documented: &'a [&'a str],
}

impl<'a> Args<'a> {
    /// For scripts that are not documented.
    pub(crate) fn same(args: &'a [&'a str]) -> Self {
        Self {
            lean: args,
            documented: args,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::fence::FENCE_MAX;
    use crate::lock::time::TIME_TOLERANCE_MS;

    #[test]
    fn constants_are_those_of_the_core() {
        let tolerance = format!("local TOLERANCE_MS = {TIME_TOLERANCE_MS}\n");
        assert!(RELEASE.lean.text.contains(&tolerance));
        assert_eq!(TOLERANCE_MS, TIME_TOLERANCE_MS.to_string());
        let most = format!("fence > {FENCE_MAX} ");
        assert!(ACQUIRE.lean.text.contains(&most));
    }
}
