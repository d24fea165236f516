//! The Lua scripts and how they are called.

use std::sync::LazyLock;

use redis::Cmd;

pub struct Script {
    pub code: &'static str,
    hash: String,
}

macro_rules! script {
    ($file:literal) => {
        LazyLock::new(|| {
            let code = concat!(include_str!("scripts/stored.lua"), include_str!($file));
            let hash = redis::Script::new(code).get_hash().to_owned();
            Script { code, hash }
        })
    };
}

pub static ACQUIRE: LazyLock<Script> = script!("scripts/acquire.lua");
pub static RELEASE: LazyLock<Script> = script!("scripts/release.lua");
pub static EXTEND: LazyLock<Script> = script!("scripts/extend.lua");
pub static LOOKUP: LazyLock<Script> = script!("scripts/lookup.lua");
pub static IS_LOCKED: LazyLock<Script> = script!("scripts/is_locked.lua");
pub static CLEANUP: LazyLock<Script> = script!("scripts/cleanup.lua");

/// One call of a script.
pub struct Call<'a> {
    pub script: &'static Script,
    pub keys: &'a [&'a str],
    pub args: &'a [&'a str],
}

impl Script {
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

impl Call<'_> {
    pub fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", &self.script.hash)
    }

    /// Carries the whole text, and the server remembers it.
    pub fn by_text(&self) -> Cmd {
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
pub fn all() -> [(&'static str, &'static str); 6] {
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
