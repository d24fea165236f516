//! Turns keys into stored keys and back. No text in PostgreSQL can contain the character U+0000. A key that
//! contains it is stored in its hashed form, with the key itself percent-encoded beside it.

use crate::error::Result;
use crate::lock::Key;
use crate::lock::key::{KeyBudget, hashed_storage_key, storage_key};

const BUDGET: KeyBudget = KeyBudget {
    limit_bytes: 1700,
    reserve_bytes: 0,
};

pub(crate) struct StoredKey {
    /// The column `key`, by which a lock is found.
    pub key: String,
    /// The column `user_key`, from which the user's key can be read.
    pub user_key: String,
}

impl StoredKey {
    pub(crate) fn of(key: &Key) -> Result<Self> {
        let user_key = key.as_str();
        if user_key.contains('\0') {
            return Ok(Self {
                key: hashed(user_key)?,
                user_key: user_key.replace('%', "%25").replace('\0', "%00"),
            });
        }
        Ok(Self {
            key: storage_key("", user_key, BUDGET)?,
            user_key: user_key.to_owned(),
        })
    }
}

/// Returns the user's key from the two columns of a row.
pub(crate) fn original(key: &str, user_key: &str) -> String {
    if key != user_key {
        let decoded = user_key.replace("%00", "\0").replace("%25", "%");
        if decoded.contains('\0') && hashed(&decoded).is_ok_and(|hashed| hashed == key) {
            return decoded;
        }
    }
    user_key.to_owned()
}

fn hashed(key: &str) -> Result<String> {
    hashed_storage_key("", key, BUDGET)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_key_comes_back(text in "[a%02\0é]{1,20}") {
            let key = Key::new(&text).unwrap();
            let stored = StoredKey::of(&key).unwrap();
            prop_assert!(!stored.key.contains('\0') && !stored.user_key.contains('\0'));
            prop_assert_eq!(original(&stored.key, &stored.user_key), key.as_str());
            if !text.contains('\0') {
                prop_assert_eq!(&stored.key, key.as_str());
            }
        }
    }
}
