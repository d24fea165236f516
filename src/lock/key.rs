//! User keys and the storage keys made from them.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::error::{Error, Result};

pub const MAX_KEY_LENGTH_BYTES: usize = 512;

/// A user's key: in NFC, not empty, at most [`MAX_KEY_LENGTH_BYTES`] long. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    pub fn new(key: &str) -> Result<Self> {
        if key.is_empty() {
            return Err(Error::invalid_argument("Key must not be empty"));
        }
        // NFC makes a string at most three times longer and at most about eleven times shorter, so a key
        // that is far too long need not be normalized first.
        if key.len() > MAX_KEY_LENGTH_BYTES * 16 {
            return Err(too_long());
        }
        let key = nfc(key);
        if key.len() > MAX_KEY_LENGTH_BYTES {
            return Err(too_long());
        }
        Ok(Self(Arc::from(key.as_ref())))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Keys are never printed.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

fn too_long() -> Error {
    Error::invalid_argument(format!(
        "Key exceeds maximum length of {MAX_KEY_LENGTH_BYTES} bytes after normalization: use a shorter key, or a hash of it"
    ))
}

pub(crate) fn nfc(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfc().collect())
    }
}

/// How long the storage keys of a backend may be, and how much room to leave for suffixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyBudget {
    pub limit_bytes: usize,
    pub reserve_bytes: usize,
}

impl KeyBudget {
    fn fits(&self, bytes: usize) -> bool {
        bytes.saturating_add(self.reserve_bytes) <= self.limit_bytes
    }
}

/// Returns `prefix:key`, or its hashed form if that exceeds the budget.
pub fn storage_key(prefix: &str, key: &str, budget: KeyBudget) -> Result<String> {
    let (prefixed, prefix_len) = prefixed(prefix, key, budget)?;
    if budget.fits(prefixed.len()) {
        return Ok(prefixed);
    }
    hashed(&prefixed, prefix_len, budget)
}

/// Returns the hashed form whatever the length, for keys that must not be stored as they are.
pub fn hashed_storage_key(prefix: &str, key: &str, budget: KeyBudget) -> Result<String> {
    let (prefixed, prefix_len) = prefixed(prefix, key, budget)?;
    hashed(&prefixed, prefix_len, budget)
}

/// Returns the full prefixed key and the length of its prefix, including the separator.
fn prefixed(prefix: &str, key: &str, budget: KeyBudget) -> Result<(String, usize)> {
    if key.is_empty() {
        return Err(Error::invalid_argument("Key must not be empty"));
    }
    let prefix = nfc(prefix);
    let prefix = prefix.trim_end_matches(':');
    let prefix_len = if prefix.is_empty() {
        0
    } else {
        prefix.len() + 1
    };
    if !budget.fits(prefix_len) {
        return Err(prefix_too_long());
    }
    let key = nfc(key);
    let mut prefixed = String::with_capacity(prefix_len + key.len());
    if prefix_len > 0 {
        prefixed.push_str(prefix);
        prefixed.push(':');
    }
    prefixed.push_str(&key);
    Ok((prefixed, prefix_len))
}

fn hashed(prefixed: &str, prefix_len: usize, budget: KeyBudget) -> Result<String> {
    let digest = Sha256::digest(prefixed.as_bytes());
    let mut out = String::with_capacity(prefix_len + 22);
    out.push_str(&prefixed[..prefix_len]);
    URL_SAFE_NO_PAD.encode_string(&digest[..16], &mut out);
    if !budget.fits(out.len()) {
        return Err(prefix_too_long());
    }
    Ok(out)
}

fn prefix_too_long() -> Error {
    Error::invalid_argument(
        "Prefix exceeds backend limit: not even the shortened storage key fits. Use a shorter prefix",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LARGE: KeyBudget = KeyBudget {
        limit_bytes: 1000,
        reserve_bytes: 26,
    };
    const SMALL: KeyBudget = KeyBudget {
        limit_bytes: 60,
        reserve_bytes: 26,
    };

    #[test]
    fn plain_and_empty_prefix() {
        assert_eq!(
            storage_key("syncguard:", "a", LARGE).unwrap(),
            "syncguard:a"
        );
        assert_eq!(storage_key("", "a", LARGE).unwrap(), "a");
        assert_eq!(storage_key(":", "a", LARGE).unwrap(), "a");
    }

    #[test]
    fn the_boundary_is_in_bytes() {
        let fits = "é".repeat(17);
        assert_eq!(storage_key("", &fits, SMALL).unwrap(), fits);
        assert_eq!(
            storage_key("", &format!("{fits}x"), SMALL).unwrap().len(),
            22
        );
    }

    #[test]
    fn hashes_the_full_prefixed_key() {
        let key = "k".repeat(100);
        let digest = Sha256::digest(format!("p:{key}").as_bytes());
        let expected = format!("p:{}", URL_SAFE_NO_PAD.encode(&digest[..16]));
        assert_eq!(storage_key("p", &key, SMALL).unwrap(), expected);
        assert_eq!(hashed_storage_key("p", &key, SMALL).unwrap(), expected);
    }

    #[test]
    fn refuses_what_cannot_fit() {
        assert!(storage_key(&"p".repeat(40), "k", SMALL).is_err());
        assert!(storage_key(&"p".repeat(20), &"k".repeat(30), SMALL).is_err());
        assert!(storage_key("p", "", SMALL).is_err());
    }

    #[test]
    fn keys_are_checked_after_normalisation() {
        assert!(Key::new("").is_err());
        assert_eq!(Key::new("e\u{301}").unwrap().as_str(), "é");
        assert!(Key::new(&"e\u{301}".repeat(256)).is_ok());
        assert!(Key::new(&"a".repeat(513)).is_err());
        assert!(Key::new(&"a".repeat(1_000_000)).is_err());
    }

    proptest! {
        #[test]
        fn storage_keys_are_deterministic_bounded_and_distinct(
            prefix in "[a-z:]{0,8}", a in any::<String>(), b in any::<String>()
        ) {
            prop_assume!(!a.is_empty() && !b.is_empty());
            let one = storage_key(&prefix, &a, SMALL).unwrap();
            prop_assert_eq!(&one, &storage_key(&prefix, &a, SMALL).unwrap());
            prop_assert!(one.len() + SMALL.reserve_bytes <= SMALL.limit_bytes);
            let two = storage_key(&prefix, &b, SMALL).unwrap();
            prop_assert_eq!(nfc(&a) == nfc(&b), one == two);
        }
    }
}
