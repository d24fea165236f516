//! The names of the keys in Redis.

use super::collisions::could_meet_another_kind;
use crate::error::{Error, Result};
use crate::lock::key::{KeyBudget, hashed_storage_key, nfc, storage_key};
use crate::lock::{Key, LockId};

const BUDGET: KeyBudget = KeyBudget {
    limit_bytes: 1000,
    reserve_bytes: 26,
};

/// The parts of the names of fence counters and of indexes that follow the prefix.
pub(super) const FENCE: &str = "fence:";
pub(super) const INDEX: &str = "id:";

/// The names of a lock's entries.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) lock: String,
    pub(crate) index: String,
    pub(crate) fence: String,
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
        keyspace.names(&Key::new(&longest)?, LockId::generate())?;
        Ok(keyspace)
    }

    pub(crate) fn names(&self, key: &Key, lock_id: LockId) -> Result<Names> {
        let lock = self.counted_lock_key(key)?;
        Ok(Names {
            fence: self.name(&[FENCE, &lock])?,
            index: self.index_key(lock_id)?,
            lock: self.outside(lock),
        })
    }

    pub(crate) fn lock_key(&self, key: &Key) -> Result<String> {
        Ok(self.outside(self.counted_lock_key(key)?))
    }

    pub(crate) fn index_key(&self, lock_id: LockId) -> Result<String> {
        self.name(&[INDEX, lock_id.as_str()])
    }

    /// Returns the name of a lock without the client's prefix. The name of the fence counter contains it.
    fn counted_lock_key(&self, key: &Key) -> Result<String> {
        let key = key.as_str();
        if could_meet_another_kind(&self.prefix, key) {
            hashed_storage_key(&self.prefix, key, BUDGET)
        } else {
            storage_key(&self.prefix, key, BUDGET)
        }
    }

    fn name(&self, parts: &[&str]) -> Result<String> {
        storage_key(&self.prefix, &parts.concat(), BUDGET).map(|name| self.outside(name))
    }

    /// The start of the names of indexes that are not shortened.
    pub(crate) fn index_start(&self) -> String {
        format!("{}{INDEX}", self.start)
    }

    /// What follows the start in the names of fence counters that are not shortened.
    pub(crate) fn fence_start(&self) -> String {
        format!("{FENCE}{}{}", self.prefix, separator(&self.prefix))
    }

    /// Whether the lock of the user's key `key` is stored under the start and `name`.
    pub(crate) fn is_name_of(&self, name: &str, key: &str) -> bool {
        let lock = Key::new(key).and_then(|key| self.lock_key(&key));
        lock.is_ok_and(|lock| lock.strip_prefix(&self.start) == Some(name))
    }

    /// The start of the names of all entries.
    pub(crate) fn start(&self) -> &str {
        &self.start
    }

    fn outside(&self, mut key: String) -> String {
        key.insert_str(0, &self.outer);
        key
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

    fn names(prefix: &str, key: &str) -> Names {
        let keyspace = Keyspace::new(prefix, "").unwrap();
        keyspace
            .names(&Key::new(key).unwrap(), LockId::generate())
            .unwrap()
    }

    #[test]
    fn names_are_those_of_the_specification() {
        let names_of_resource = names("syncguard", "resource:123");
        assert_eq!(names_of_resource.lock, "syncguard:resource:123");
        assert_eq!(
            names_of_resource.fence,
            "syncguard:fence:syncguard:resource:123"
        );
        assert_eq!(names("", "a").fence, "fence:a");
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
            let names = names("syncguard", key);
            assert_eq!(names.lock.len(), "syncguard:".len() + 22);
            assert_eq!(names.fence, format!("syncguard:fence:{}", names.lock));
        }
        assert_eq!(names("", "fence:x").lock.len(), 22);
    }

    #[test]
    fn other_keys_are_stored_as_they_are() {
        for key in ["fences", "fence:north", "fence:syncguardian:x", "id:42"] {
            assert_eq!(names("syncguard", key).lock, format!("syncguard:{key}"));
        }
        assert_eq!(names("", "id:42").lock, "id:42");
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
            prop_assert_eq!(&names, &Names { lock: lock.clone(), fence, index: index.clone() });
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
            let names = |key: &str| {
                keyspace.names(&Key::new(key).unwrap(), LockId::generate()).unwrap()
            };
            let lock = names(&a).lock;
            prop_assert_ne!(&lock, &names(&b).fence);
            prop_assert_ne!(&lock, &names(&a).fence);
            let name = lock.strip_prefix(keyspace.start()).unwrap();
            let counters = format!("{FENCE}{prefix}{}", separator(&prefix));
            prop_assert!(!name.starts_with(&counters));
            let lock_id = lock.strip_prefix(&keyspace.index_start());
            prop_assert!(lock_id.is_none_or(|id| LockId::parse(id).is_err()));
        }
    }
}
