//! The label of a holder, which is stored with its locks.

use std::fmt;
use std::sync::Arc;

use super::LockId;
use crate::error::{Error, Result};

pub const MAX_LABEL_BYTES: usize = 128;

/// A short text that tells people who holds a lock, such as `host:pid`. It is shown in messages and on
/// terminals, so it has no character that breaks a line or controls a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderLabel(Arc<str>);

impl HolderLabel {
    pub fn new(text: &str) -> Result<Self> {
        Self::from_stored(text).ok_or_else(|| {
            Error::invalid_argument(format!(
                "holderLabel must be a text of 1 to {MAX_LABEL_BYTES} bytes without control characters"
            ))
        })
    }

    /// Reads a stored label. None if the text is not valid: other programs may write to the store.
    pub fn from_stored(text: &str) -> Option<Self> {
        let fits = (1..=MAX_LABEL_BYTES).contains(&text.len());
        (fits && text.chars().all(is_harmless)).then(|| Self(text.into()))
    }

    /// Writes the label together with its lockId, for a table in which programs that do not know labels
    /// replace the holder in a row. The label is then not mistaken for that of the next holder.
    pub fn with_lock_id(&self, lock_id: LockId) -> String {
        format!("{} {self}", lock_id.as_str())
    }

    /// Reads what [`with_lock_id`](Self::with_lock_id) wrote. None if it belongs to another lock.
    pub fn of_lock_id(stored: &str, lock_id: &str) -> Option<Self> {
        let label = stored.strip_prefix(lock_id)?.strip_prefix(' ')?;
        Self::from_stored(label)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HolderLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether the character is safe to print: it does not control a terminal, separate lines, or change
/// the direction of a text.
fn is_harmless(character: char) -> bool {
    !character.is_control()
        && !matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    #[test]
    fn short_texts_that_fit_on_a_line() {
        for text in ["web-1:4242", "a b", "\"\\/'", "Büro 7", &"x".repeat(128)] {
            assert_eq!(HolderLabel::new(text).unwrap().as_str(), text);
        }
        for text in [
            "",
            "a\nb",
            "\u{1b}[2J",
            "\0",
            "\u{7f}",
            "\u{9b}",
            "\u{2028}",
            "\u{202e}",
            "\u{2066}",
            &"x".repeat(129),
            &"é".repeat(65),
        ] {
            let error = HolderLabel::new(text).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{text:?}");
        }
    }

    #[test]
    fn a_label_is_that_of_one_lock() {
        let (one, other) = (LockId::generate(), LockId::generate());
        let label = HolderLabel::new("web 1").unwrap();
        let stored = label.with_lock_id(one);
        assert_eq!(
            HolderLabel::of_lock_id(&stored, one.as_str()),
            Some(label.clone())
        );
        assert_eq!(HolderLabel::of_lock_id(&stored, other.as_str()), None);
        assert_eq!(HolderLabel::of_lock_id("web 1", one.as_str()), None);
        assert_eq!(HolderLabel::of_lock_id(one.as_str(), one.as_str()), None);
    }
}
