//! What users write inside stored JSON, written as cjson writes it.

use std::borrow::Cow;
use std::fmt::Write;

use crate::lock::HolderLabel;

/// What stands between the quotes of `"key":"…"`. The label is the field after it: it ends the key's
/// text and begins its own. So the scripts and their arguments are the same with and without one.
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

/// The inside of a JSON string.
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
    use proptest::prelude::*;

    #[test]
    fn as_cjson_does() {
        assert_eq!(escape("orders:42 é{}"), "orders:42 é{}");
        assert_eq!(
            escape("\"\\/\u{8}\u{c}\n\r\t\0\u{1f}\u{7f}"),
            r#"\"\\\/\b\f\n\r\t\u0000\u001f\u007f"#
        );
    }

    proptest! {
        #[test]
        fn any_json_parser_reads_it_back(text in any::<String>()) {
            let json = format!("\"{}\"", escape(&text));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }
}
