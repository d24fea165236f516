//! The Lua scripts and how they are called.

use std::sync::LazyLock;

use redis::Cmd;

pub(crate) struct Script {
    pub(crate) code: &'static str,
    hash: String,
}

macro_rules! script {
    ($($part:literal),+) => {
        LazyLock::new(|| {
            let code = concat!(
                include_str!("scripts/stored.lua"),
                $(include_str!(concat!("scripts/", $part))),+
            );
            let hash = redis::Script::new(code).get_hash().to_owned();
            Script { code, hash }
        })
    };
}

pub(crate) static ACQUIRE: LazyLock<Script> = script!("acquire.lua");
pub(crate) static RELEASE: LazyLock<Script> = script!("release.lua");
pub(crate) static EXTEND: LazyLock<Script> = script!("extend.lua");
pub(crate) static LOOKUP: LazyLock<Script> = script!("lookup.lua");
pub(crate) static IS_LOCKED: LazyLock<Script> = script!("lock_id.lua", "is_locked.lua");
pub(crate) static LIST: LazyLock<Script> = script!("list.lua");
pub(crate) static FORCE_RELEASE: LazyLock<Script> = script!("lock_id.lua", "force_release.lua");
pub(crate) static CLEANUP: LazyLock<Script> = script!("cleanup.lua");

/// One call of a script.
pub(crate) struct Call<'a> {
    pub(crate) script: &'static Script,
    pub(crate) keys: &'a [&'a str],
    pub(crate) args: &'a [&'a str],
}

impl Script {
    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }
}

impl Call<'_> {
    pub(crate) fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", &self.script.hash)
    }

    /// Carries the whole text, and the server remembers it.
    pub(crate) fn by_text(&self) -> Cmd {
        self.command("EVAL", self.script.code)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let values = || self.keys.iter().chain(self.args);
        let bytes: usize = values().map(|value| value.len()).sum();
        let mut command = Cmd::with_capacity(
            3 + self.keys.len() + self.args.len(),
            name.len() + script.len() + bytes + 4,
        );
        command.arg(name).arg(script).arg(self.keys.len());
        for value in values() {
            command.arg(*value);
        }
        command
    }
}

/// The scripts by name, for those who run them through a client of their own.
#[cfg(any(feature = "node", test))]
pub(crate) fn all() -> [(&'static str, &'static str); 6] {
    [
        ("acquire", ACQUIRE.code),
        ("release", RELEASE.code),
        ("extend", EXTEND.code),
        ("lookup", LOOKUP.code),
        ("isLocked", IS_LOCKED.code),
        ("cleanup", CLEANUP.code),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::fence::FENCE_MAX;
    use crate::lock::time::TIME_TOLERANCE_MS;

    #[test]
    fn constants_are_those_of_the_core() {
        let tolerance = format!("local TOLERANCE_MS = {TIME_TOLERANCE_MS}\n");
        for (name, code) in all() {
            assert!(code.contains(&tolerance), "{name}");
        }
        assert!(ACQUIRE.code.contains(&format!("fence > {FENCE_MAX} ")));
    }
}
