//! The Lua scripts and how they are called.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::LazyLock;

use crate::lock::HolderLabel;

/// The tolerance as the documented arguments contain it.
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

/// With the documented arguments and answer, for a client of the user: other implementations send the
/// same, and mocks expect it.
pub(crate) static ACQUIRE: Static =
    script!("acquire": "arguments/acquire", "acquire", "acquire_one");
/// The same for our own connection. Leaner arguments and answers save the server a tenth of the time
/// of an acquire and a release.
pub(crate) static ACQUIRE_LEAN: Static =
    script!("acquire": "tolerance", "arguments/acquire_lean", "acquire", "acquire_one");
pub(crate) static RELEASE: Static =
    script!("release": "arguments/by_lock_id", "release", "release_one");
/// Any number of calls of [`ACQUIRE_LEAN`] and [`RELEASE`].
pub(crate) static TOGETHER: Static =
    script!("together": "tolerance", "arguments/acquire_lean", "acquire", "release", "together");
pub(crate) static EXTEND: Static = script!("extend": "arguments/by_lock_id", "extend");
pub(crate) static LOOKUP: Static = script!("lookup": "arguments/by_lock_id", "lookup");
pub(crate) static CLEANUP: Static = script!("cleanup": "arguments/by_lock_id", "cleanup");
pub(crate) static IS_LOCKED: Static = script!("isLocked": "tolerance", "lock_id", "is_locked");
pub(crate) static FORCE_RELEASE: Static =
    script!("forceRelease": "tolerance", "lock_id", "force_release");
pub(crate) static LIST: Static = script!("list": "tolerance", "list");
pub(crate) static PREFIXES: Static = script!("prefixes": "prefixes");
pub(crate) static INFO: Static = script!("info": "info");

/// One call of a script.
pub(crate) struct Call<'a> {
    pub(crate) script: &'static Script,
    pub(crate) keys: &'a [&'a str],
    pub(crate) args: &'a [&'a str],
}

/// Returns the text between the quotes of `"key":"…"`. If there is a label, the text closes the key's
/// quotes and opens those of a field for the label. So a script needs no argument for the label.
pub(crate) fn key_and_label<'a>(key: &'a str, label: Option<&HolderLabel>) -> Cow<'a, str> {
    let key = escape(key);
    match label {
        None => key,
        Some(label) => Cow::Owned(format!(
            r#"{key}","holderLabel":"{}"#,
            escape(label.as_str())
        )),
    }
}

/// Returns the inside of a JSON string.
fn escape(text: &str) -> Cow<'_, str> {
    let plain = |b: u8| b >= 0x20 && !matches!(b, b'"' | b'\\' | b'/' | 0x7f);
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '/' => out.push_str("\\/"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '\u{7f}' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::fence::FENCE_MAX;
    use crate::lock::time::TIME_TOLERANCE_MS;
    use proptest::prelude::*;

    #[test]
    fn constants_are_those_of_the_core() {
        let tolerance = format!("local TOLERANCE_MS = {TIME_TOLERANCE_MS}\n");
        assert!(ACQUIRE_LEAN.text.contains(&tolerance));
        assert_eq!(TOLERANCE_MS, TIME_TOLERANCE_MS.to_string());
        let limit = format!("fence > {FENCE_MAX} ");
        assert!(ACQUIRE.text.contains(&limit));
    }

    #[test]
    fn text_is_escaped_as_cjson_does_it() {
        assert_eq!(escape("orders:42 é{}"), "orders:42 é{}");
        assert_eq!(
            escape("\"\\/\u{8}\u{c}\n\r\t\0\u{1f}\u{7f}"),
            r#"\"\\\/\b\f\n\r\t\u0000\u001f\u007f"#
        );
    }

    proptest! {
        #[test]
        fn any_json_parser_reads_escaped_text_back(text in any::<String>()) {
            let json = format!("\"{}\"", escape(&text));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }
}
