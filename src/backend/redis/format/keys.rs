//! The names of the keys in Redis.

use std::ops::Range;

use super::collisions::could_meet_another_kind;
use crate::error::{Error, Result};
use crate::lock::id::LOCK_ID_LENGTH;
use crate::lock::key::{KeyBudget, hashed_storage_key, nfc, storage_key};
use crate::lock::{Key, LockId};

const BUDGET: KeyBudget = KeyBudget {
    limit_bytes: 1000,
    reserve_bytes: 26,
};

/// The parts of the names of fence counters and of indexes that follow the prefix.
pub(super) const FENCE: &str = "fence:";
pub(super) const INDEX: &str = "id:";

#[derive(Debug, PartialEq, Eq)]
struct LockKeys {
    lock: String,
    fence: String,
}

/// All names of a lock, in one allocation, because every request makes them.
#[derive(Debug)]
pub(crate) struct Names {
    text: String,
    fence_end: usize,
    lock: Range<usize>,
}

impl Names {
    pub(crate) fn lock(&self) -> &str {
        &self.text[self.lock.clone()]
    }

    pub(crate) fn index(&self) -> &str {
        &self.text[self.lock.end..]
    }

    pub(crate) fn fence(&self) -> &str {
        &self.text[..self.fence_end]
    }
}

/// Makes key names under one prefix.
#[derive(Debug)]
pub(crate) struct Keyspace {
    prefix: String,
    /// The start of every name that is not shortened.
    start: String,
    /// The prefix that the user's Redis client puts before every key. The limits do not count it.
    outer: String,
}

impl Keyspace {
    /// The prefix must come from [`checked`]. A tag may follow it.
    pub(crate) fn new(prefix: &str, outer: &str) -> Result<Self> {
        let keyspace = Self {
            start: format!("{outer}{prefix}{}", separator(prefix)),
            prefix: prefix.to_owned(),
            outer: outer.to_owned(),
        };
        // Report a prefix that is too long now, and not at the first operation.
        let longest = "k".repeat(crate::lock::key::MAX_KEY_LENGTH_BYTES);
        keyspace.lock_keys(&Key::new(&longest)?)?;
        Ok(keyspace)
    }

    pub(crate) fn names(&self, key: &Key, lock_id: LockId) -> Result<Names> {
        if !self.is_plain(key.as_str()) {
            let LockKeys { lock, fence } = self.lock_keys(key)?;
            return Ok(Names {
                fence_end: fence.len(),
                lock: fence.len()..fence.len() + lock.len(),
                text: [fence, lock, self.index_key(lock_id)?].concat(),
            });
        }
        let (start, key, id) = (self.start.as_str(), key.as_str(), lock_id.as_str());
        let lock_start = start.len() + FENCE.len();
        let fence_end = lock_start + start.len() + key.len();
        Ok(Names {
            // The name of the lock ends that of its fence.
            text: [start, FENCE, start, key, start, INDEX, id].concat(),
            fence_end,
            lock: lock_start..fence_end,
        })
    }

    fn lock_keys(&self, key: &Key) -> Result<LockKeys> {
        let key = key.as_str();
        let base = if could_meet_another_kind(&self.prefix, key) {
            hashed_storage_key(&self.prefix, key, BUDGET)?
        } else {
            storage_key(&self.prefix, key, BUDGET)?
        };
        let fence = storage_key(&self.prefix, &format!("{FENCE}{base}"), BUDGET)?;
        Ok(LockKeys {
            lock: self.outside(base),
            fence: self.outside(fence),
        })
    }

    pub(crate) fn lock_key(&self, key: &Key) -> Result<String> {
        if self.is_plain(key.as_str()) {
            return Ok([&self.start, key.as_str()].concat());
        }
        Ok(self.lock_keys(key)?.lock)
    }

    /// Whether the names of this key need neither a hash nor a check, which holds for most keys.
    fn is_plain(&self, key: &str) -> bool {
        self.outer.is_empty()
            && self.is_short(self.start.len() + key.len())
            && !could_meet_another_kind(&self.prefix, key)
    }

    pub(crate) fn index_key(&self, lock_id: LockId) -> Result<String> {
        if self.is_short(LOCK_ID_LENGTH) {
            return Ok([&self.start, INDEX, lock_id.as_str()].concat());
        }
        let index = storage_key(
            &self.prefix,
            &format!("{INDEX}{}", lock_id.as_str()),
            BUDGET,
        )?;
        Ok(self.outside(index))
    }

    /// The start of the names of indexes that are not shortened.
    pub(crate) fn index_start(&self) -> String {
        format!("{}{INDEX}", self.start)
    }

    /// The start of the names of all entries.
    pub(crate) fn start(&self) -> &str {
        &self.start
    }

    /// Whether even the fence key of a key with this many bytes fits without being shortened.
    fn is_short(&self, bytes: usize) -> bool {
        self.prefix.len() + "::fence:".len() + bytes + BUDGET.reserve_bytes <= BUDGET.limit_bytes
    }

    fn outside(&self, key: String) -> String {
        if self.outer.is_empty() {
            key
        } else {
            format!("{}{key}", self.outer)
        }
    }
}

/// Returns the prefix as it is stored. Fails if a lock under it could have the name of a fence counter.
pub(crate) fn checked(prefix: &str) -> Result<String> {
    let prefix = nfc(prefix.trim_end_matches(':')).into_owned();
    if !is_allowed(&prefix) {
        return Err(Error::invalid_argument(
            "keyPrefix must not contain \"fence:\" or end with \"fence\": locks could overwrite fence counters",
        ));
    }
    Ok(prefix)
}

/// Whether counters of other prefixes cannot have the names of locks of this one.
pub(super) fn is_allowed(prefix: &str) -> bool {
    !prefix.contains(FENCE) && !prefix.ends_with("fence")
}

/// The separator between a prefix and a key.
pub(crate) fn separator(prefix: &str) -> &'static str {
    if prefix.is_empty() { "" } else { ":" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(prefix: &str, key: &str) -> LockKeys {
        Keyspace::new(prefix, "")
            .unwrap()
            .lock_keys(&Key::new(key).unwrap())
            .unwrap()
    }

    #[test]
    fn names_are_those_of_the_specification() {
        assert_eq!(
            keys("syncguard", "resource:123"),
            LockKeys {
                lock: "syncguard:resource:123".to_owned(),
                fence: "syncguard:fence:syncguard:resource:123".to_owned(),
            }
        );
        assert_eq!(keys("", "a").fence, "fence:a");
        let id = LockId::generate();
        let keyspace = Keyspace::new("app", "outer:").unwrap();
        assert_eq!(
            keyspace.index_key(id).unwrap(),
            format!("outer:app:id:{}", id.as_str())
        );
    }

    #[test]
    fn keys_that_name_another_entry_are_hashed() {
        for key in ["fence:syncguard:x", "id:AAAAAAAAAAAAAAAAAAAAAA"] {
            let keys = keys("syncguard", key);
            assert_eq!(keys.lock.len(), "syncguard:".len() + 22);
            assert_eq!(keys.fence, format!("syncguard:fence:{}", keys.lock));
        }
        assert_eq!(keys("", "fence:x").lock.len(), 22);
    }

    #[test]
    fn other_keys_are_stored_as_they_are() {
        for key in ["fences", "fence:north", "fence:syncguardian:x", "id:42"] {
            assert_eq!(keys("syncguard", key).lock, format!("syncguard:{key}"));
        }
        assert_eq!(keys("", "id:42").lock, "id:42");
    }

    #[test]
    fn dangerous_prefixes_are_refused() {
        for bad in ["fence", "app:fence", "app:fence:", "fence:x", "a:fence:b"] {
            assert!(checked(bad).is_err(), "{bad}");
        }
        assert_eq!(checked("app::").unwrap(), "app");
        assert!(Keyspace::new(&"p".repeat(960), "").is_err());
        assert!(Keyspace::new(&"p".repeat(900), "").is_ok());
    }

    const LIKE_OURS: &str =
        "((fence:|id:|syncguard:|\\{t\\}:|a:|é:|[a-z]){1,4}|(a:)?id:[a-zA-Z0-9_-]{21,23})";

    proptest! {
        #[test]
        fn plain_names_are_those_of_the_specification(prefix in "[a-zé:]{0,4}", repeat in 1usize..300, key in "[a-zé]{1,2}") {
            let prefix = prefix.repeat(repeat);
            let key = key.repeat(repeat.min(120));
            let prefix = prefix.trim_end_matches(':');
            let Ok(keyspace) = Keyspace::new(prefix, "") else { return Ok(()) };
            let lock = storage_key(prefix, &key, BUDGET).unwrap();
            let fence = storage_key(prefix, &format!("fence:{lock}"), BUDGET).unwrap();
            let key = Key::new(&key).unwrap();
            let id = LockId::generate();
            let index = storage_key(prefix, &format!("id:{}", id.as_str()), BUDGET).unwrap();
            let names = keyspace.names(&key, id).unwrap();
            prop_assert_eq!([names.lock(), names.fence(), names.index()], [&*lock, &*fence, &*index]);
            prop_assert_eq!(keyspace.lock_key(&key).unwrap(), lock);
            prop_assert_eq!(keyspace.index_key(id).unwrap(), index);
        }

        #[test]
        fn no_lock_key_is_a_counter_or_an_index(
            prefix in "(syncguard|\\{t\\}|id|a:id|é|)",
            outer in "(outer:)?",
            a in LIKE_OURS,
            b in LIKE_OURS,
        ) {
            let keyspace = Keyspace::new(&prefix, &outer).unwrap();
            let keys = |key: &str| keyspace.lock_keys(&Key::new(key).unwrap()).unwrap();
            let lock = keys(&a).lock;
            prop_assert_ne!(&lock, &keys(&b).fence);
            prop_assert_ne!(&lock, &keys(&a).fence);
            let name = lock.strip_prefix(keyspace.start()).unwrap();
            let counters = format!("{FENCE}{prefix}{}", separator(&prefix));
            prop_assert!(!name.starts_with(&counters));
            let lock_id = lock.strip_prefix(&keyspace.index_start());
            prop_assert!(lock_id.is_none_or(|id| LockId::parse(id).is_err()));
        }
    }
}
