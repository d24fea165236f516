//! The names of the keys in Redis.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::lock::id::LOCK_ID_LENGTH;
use crate::lock::key::{KeyBudget, hashed_storage_key, nfc, storage_key};
use crate::lock::{Key, LockId};

const BUDGET: KeyBudget = KeyBudget::REDIS;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LockKeys {
    pub(crate) lock: String,
    pub(crate) fence: String,
}

/// Makes key names under one prefix.
#[derive(Debug)]
pub(crate) struct Keyspace {
    prefix: String,
    /// What every key starts with as long as it is short enough.
    start: String,
    /// What a client library in front of us would have put before every key; outside all rules.
    outer: String,
}

impl Keyspace {
    pub(crate) fn new(prefix: &str, cluster: bool, outer: &str) -> Result<Self> {
        let prefix = prefix.trim_end_matches(':');
        if prefix.contains("fence:") || prefix.ends_with("fence") {
            return Err(Error::invalid_argument(
                "keyPrefix must not contain \"fence:\" or end with \"fence\": locks could overwrite fence counters",
            ));
        }
        let prefix = if cluster && hash_tag(&format!("{outer}{prefix}")).is_none() {
            Cow::Owned(tagged(prefix, outer)?)
        } else {
            Cow::Borrowed(prefix)
        };
        let prefix = nfc(&prefix).into_owned();
        let keyspace = Self {
            start: format!("{outer}{prefix}{}", separator(&prefix)),
            prefix,
            outer: outer.to_owned(),
        };
        // A prefix that is too long should be told now, not at the first operation.
        let longest = "k".repeat(crate::lock::key::MAX_KEY_LENGTH_BYTES);
        keyspace.lock_keys(&Key::new(&longest)?)?;
        Ok(keyspace)
    }

    pub(crate) fn lock_keys(&self, key: &Key) -> Result<LockKeys> {
        let key = key.as_str();
        let dangerous = self.is_dangerous(key);
        let start = &self.start;
        if !dangerous && self.outer.is_empty() && self.is_short(start.len() + key.len()) {
            return Ok(LockKeys {
                lock: [start, key].concat(),
                fence: [start, "fence:", start, key].concat(),
            });
        }
        let base = if dangerous {
            hashed_storage_key(&self.prefix, key, BUDGET)?
        } else {
            storage_key(&self.prefix, key, BUDGET)?
        };
        let fence = storage_key(&self.prefix, &format!("fence:{base}"), BUDGET)?;
        Ok(LockKeys {
            lock: self.outside(base),
            fence: self.outside(fence),
        })
    }

    /// Whether a key, as it stands, could name a fence counter or an index of another key.
    fn is_dangerous(&self, key: &str) -> bool {
        match key.split_once(':') {
            Some(("id", rest)) => LockId::parse(rest).is_ok(),
            Some(("fence", _)) => key.starts_with(&self.fence_start()),
            _ => false,
        }
    }

    pub(crate) fn index_key(&self, lock_id: LockId) -> Result<String> {
        if self.is_short(LOCK_ID_LENGTH) {
            return Ok([&self.start, "id:", lock_id.as_str()].concat());
        }
        let index = storage_key(&self.prefix, &format!("id:{}", lock_id.as_str()), BUDGET)?;
        Ok(self.outside(index))
    }

    /// What the names of indexes start with, unless they are shortened.
    pub(crate) fn index_start(&self) -> String {
        format!("{}id:", self.start)
    }

    /// What the names of all entries start with.
    pub(crate) fn start(&self) -> &str {
        &self.start
    }

    /// How the names of fence counters go on, unless they are shortened.
    pub(crate) fn fence_start(&self) -> String {
        format!("fence:{}{}", self.prefix, separator(&self.prefix))
    }

    /// Whether the lock of the user's key `key` is stored under `name`, to be put after the start.
    pub(crate) fn is_name_of(&self, name: &str, key: &str) -> bool {
        let keys = Key::new(key).and_then(|key| self.lock_keys(&key));
        keys.is_ok_and(|keys| keys.lock.strip_prefix(&self.start) == Some(name))
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

/// What stands between a prefix and a key.
fn separator(prefix: &str) -> &'static str {
    if prefix.is_empty() { "" } else { ":" }
}

/// The part of a key that decides its cluster slot, if it is not the whole key.
fn hash_tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// All keys of a backend must share one slot, or a script could not touch them together.
fn tagged(prefix: &str, outer: &str) -> Result<String> {
    let tagged = format!("{{{prefix}}}");
    if hash_tag(&format!("{outer}{tagged}")).is_none() {
        return Err(Error::invalid_argument(
            "On Redis Cluster keyPrefix must not be empty: its {hash tag} keeps the keys of a lock in one slot",
        ));
    }
    Ok(tagged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(prefix: &str, cluster: bool, key: &str) -> LockKeys {
        Keyspace::new(prefix, cluster, "")
            .unwrap()
            .lock_keys(&Key::new(key).unwrap())
            .unwrap()
    }

    #[test]
    fn as_specified() {
        assert_eq!(
            keys("syncguard", false, "resource:123"),
            LockKeys {
                lock: "syncguard:resource:123".to_owned(),
                fence: "syncguard:fence:syncguard:resource:123".to_owned(),
            }
        );
        assert_eq!(keys("", false, "a").fence, "fence:a");
        let id = LockId::generate();
        let keyspace = Keyspace::new("app:", false, "outer:").unwrap();
        assert_eq!(
            keyspace.index_key(id).unwrap(),
            format!("outer:app:id:{}", id.as_str())
        );
    }

    #[test]
    fn keys_that_look_like_ours_are_hashed() {
        for key in ["fence:syncguard:x", "id:AAAAAAAAAAAAAAAAAAAAAA"] {
            let keys = keys("syncguard", false, key);
            assert_eq!(keys.lock.len(), "syncguard:".len() + 22);
            assert_eq!(keys.fence, format!("syncguard:fence:{}", keys.lock));
        }
        assert_eq!(keys("", false, "fence:x").lock.len(), 22);
    }

    #[test]
    fn keys_that_meet_nothing_of_ours_stay_as_they_are() {
        for key in [
            "fences",
            "fence:north",
            "fence:syncguard",
            "fence:syncguardian:x",
            "id:42",
            "id:AAAAAAAAAAAAAAAAAAAAA",
            "id:AAAAAAAAAAAAAAAAAAAAAAA",
            "id:AAAAAAAAAAAAAAAAAAAAA=",
        ] {
            assert_eq!(
                keys("syncguard", false, key).lock,
                format!("syncguard:{key}")
            );
        }
        assert_eq!(keys("", false, "id:42").lock, "id:42");
    }

    #[test]
    fn cluster_prefixes_get_a_hash_tag_unless_they_have_one() {
        assert_eq!(keys("app:", true, "k").lock, "{app}:k");
        assert_eq!(keys("a{b}c", true, "k").lock, "a{b}c:k");
        assert_eq!(keys("a{}", true, "k").lock, "{a{}}:k");
        for bad in ["", ":", "}x"] {
            assert!(Keyspace::new(bad, true, "").is_err(), "{bad}");
        }
        let keyspace = Keyspace::new("app", true, "{t}:").unwrap();
        assert_eq!(
            keyspace.lock_keys(&Key::new("k").unwrap()).unwrap().lock,
            "{t}:app:k"
        );
    }

    #[test]
    fn dangerous_prefixes_are_refused() {
        for bad in ["fence", "app:fence", "app:fence:", "fence:x", "a:fence:b"] {
            assert!(Keyspace::new(bad, false, "").is_err(), "{bad}");
        }
        assert!(Keyspace::new(&"p".repeat(960), false, "").is_err());
        assert!(Keyspace::new(&"p".repeat(900), false, "").is_ok());
    }

    const LIKE_OURS: &str =
        "((fence:|id:|syncguard:|\\{t\\}:|a:|é:|[a-z]){1,4}|(a:)?id:[a-zA-Z0-9_-]{21,23})";

    proptest! {
        /// The short way and the specified way lead to the same names.
        #[test]
        fn as_made_step_by_step(prefix in "[a-zé:]{0,4}", repeat in 1usize..300, key in "[a-zé]{1,2}") {
            let prefix = prefix.repeat(repeat);
            let key = key.repeat(repeat.min(120));
            let Ok(keyspace) = Keyspace::new(&prefix, false, "") else { return Ok(()) };
            let lock = storage_key(&prefix, &key, BUDGET).unwrap();
            let fence = storage_key(&prefix, &format!("fence:{lock}"), BUDGET).unwrap();
            prop_assert_eq!(keyspace.lock_keys(&Key::new(&key).unwrap()).unwrap(), LockKeys { lock, fence });
            let id = LockId::generate();
            let index = storage_key(&prefix, &format!("id:{}", id.as_str()), BUDGET).unwrap();
            prop_assert_eq!(keyspace.index_key(id).unwrap(), index);
        }

        #[test]
        fn keys_of_a_cluster_share_a_tag(prefix in "[a{}:]{1,6}", key in "[a{}:]{1,6}") {
            let Ok(keyspace) = Keyspace::new(&prefix, true, "") else { return Ok(()) };
            let keys = keyspace.lock_keys(&Key::new(&key).unwrap()).unwrap();
            let index = keyspace.index_key(LockId::generate()).unwrap();
            prop_assert!(hash_tag(&keys.lock).is_some());
            prop_assert_eq!(hash_tag(&keys.lock), hash_tag(&keys.fence));
            prop_assert_eq!(hash_tag(&keys.lock), hash_tag(&index));
        }

        #[test]
        fn no_lock_key_is_a_counter_or_an_index(
            prefix in "(syncguard|\\{t\\}|id|a:id|é|)",
            outer in "(outer:)?",
            a in LIKE_OURS,
            b in LIKE_OURS,
        ) {
            let keyspace = Keyspace::new(&prefix, false, &outer).unwrap();
            let keys = |key: &str| keyspace.lock_keys(&Key::new(key).unwrap()).unwrap();
            let lock = keys(&a).lock;
            prop_assert_ne!(&lock, &keys(&b).fence);
            prop_assert_ne!(&lock, &keys(&a).fence);
            let name = lock.strip_prefix(keyspace.start()).unwrap();
            prop_assert!(!name.starts_with(&keyspace.fence_start()));
            let lock_id = lock.strip_prefix(&keyspace.index_start());
            prop_assert!(lock_id.is_none_or(|id| LockId::parse(id).is_err()));
        }
    }
}
