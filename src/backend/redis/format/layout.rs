//! Spreads the locks of a prefix over the shards of a cluster.
//!
//! A script can only use keys of one slot. So a prefix with a `{tag}` has all its locks in one shard,
//! and so has a server that is not part of a cluster. Any other prefix is spread over 16 tags. The key
//! of a lock decides its tag, and the lockId contains the number of the tag.

use super::keys::{Keyspace, checked, separator};
use super::slots::{TAGS, hash_tag, slot_of, tag_of};
use crate::error::{Error, Result};
use crate::lock::{Key, LockId};

#[derive(Debug)]
pub(crate) struct Layout {
    /// The names of each shard: one shard, or one for each tag.
    spaces: Vec<Keyspace>,
}

impl Layout {
    /// `outer` is the prefix that the user's Redis client puts before every key.
    pub(crate) fn new(prefix: &str, cluster: bool, outer: &str) -> Result<Self> {
        let prefix = checked(prefix)?;
        let has_tag = hash_tag(&format!("{outer}{prefix}")).is_some();
        let spaces = if cluster && !has_tag {
            let tagged = |tag| Keyspace::new(&tagged(&prefix, outer, tag)?, outer);
            TAGS.into_iter().map(tagged).collect::<Result<_>>()?
        } else {
            vec![Keyspace::new(&prefix, outer)?]
        };
        Ok(Self { spaces })
    }

    pub(crate) fn of_key(&self, key: &Key) -> (usize, &Keyspace) {
        let bits_of = self.lock_id_bits();
        let shard = bits_of.map_or(0, |bits_of| bits_of(key));
        (shard, &self.spaces[shard])
    }

    /// Returns the shard of a lock with this id. It may be wrong if another layout made the id.
    pub(crate) fn of_lock_id(&self, lock_id: LockId) -> (usize, &Keyspace) {
        let shard = lock_id.spare_bits() % self.spaces.len();
        (shard, &self.spaces[shard])
    }

    /// Computes the number of a key's tag, which lockIds carry if this layout has several tags.
    pub(crate) fn lock_id_bits(&self) -> Option<fn(&Key) -> usize> {
        (self.spaces.len() > 1).then_some(|key| tag_of(key.as_str()))
    }

    pub(crate) fn shards(&self) -> &[Keyspace] {
        &self.spaces
    }

    /// Returns the slot of each shard, for a cluster.
    pub(crate) fn slots(&self) -> Vec<u16> {
        let slot = |space: &Keyspace| slot_of(space.start());
        self.spaces.iter().map(slot).collect()
    }
}

/// Returns the prefix of the names with this tag.
fn tagged(prefix: &str, outer: &str, tag: &str) -> Result<String> {
    let tagged = format!("{prefix}{}{{{tag}}}", separator(prefix));
    if hash_tag(&format!("{outer}{tagged}")) != Some(tag) {
        return Err(Error::invalid_argument(
            "On Redis Cluster keyPrefix must have a whole {tag}, or no { at all: it decides where keys are",
        ));
    }
    Ok(tagged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(key: &str) -> Key {
        Key::new(key).unwrap()
    }

    fn lock(prefix: &str, outer: &str, name: &str) -> String {
        let layout = Layout::new(prefix, true, outer).unwrap();
        let name = key(name);
        layout.of_key(&name).1.lock_key(&name).unwrap()
    }

    #[test]
    fn a_prefix_without_a_tag_is_spread_in_a_cluster() {
        assert_eq!(lock("app:", "", "orders:42"), "app:{bdz}:orders:42");
        assert_eq!(lock("app", "", "a"), "app:{ff0}:a");
        assert_eq!(lock("", "", "a"), "{ff0}:a");
        assert_eq!(lock("}x", "", "a"), "}x:{ff0}:a");
        assert_eq!(lock("app", "outer:", "a"), "outer:app:{ff0}:a");
        let layout = Layout::new("app", true, "").unwrap();
        assert_eq!(layout.slots(), TAGS.map(slot_of));
    }

    #[test]
    fn a_prefix_with_a_tag_is_used_as_it_is() {
        assert_eq!(lock("{app}", "", "a"), "{app}:a");
        assert_eq!(lock("a{b}c", "", "a"), "a{b}c:a");
        assert_eq!(lock("app", "{t}:", "a"), "{t}:app:a");
        let layout = Layout::new("{app}:", true, "").unwrap();
        assert_eq!(layout.slots(), [slot_of("app")]);
    }

    #[test]
    fn a_server_that_is_no_cluster_has_one_place() {
        let layout = Layout::new("app", false, "").unwrap();
        let (shard, space) = layout.of_key(&key("a"));
        assert_eq!(shard, 0);
        assert_eq!(space.lock_key(&key("a")).unwrap(), "app:a");
        assert!(layout.lock_id_bits().is_none());
        for bits in 0..16 {
            let lock_id = LockId::generate().with_spare_bits(bits);
            let index = layout.of_lock_id(lock_id).1.index_key(lock_id).unwrap();
            assert_eq!(index, format!("app:id:{}", lock_id.as_str()));
        }
    }

    #[test]
    fn prefixes_with_half_a_tag_are_refused() {
        for bad in ["a{", "a{}", "{"] {
            assert!(Layout::new(bad, true, "").is_err(), "{bad}");
            assert!(Layout::new(bad, false, "").is_ok(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn all_names_of_a_lock_share_a_slot(
            prefix in "[a{}:]{0,6}",
            name in "([a{}:]{1,6}|id:[a-z]{22}|fence:a:[a-z]|[é]{100,256})",
            longer in 0usize..900,
        ) {
            let prefix = prefix + &"p".repeat(longer);
            let Ok(layout) = Layout::new(&prefix, true, "") else { return Ok(()) };
            let name = key(&name);
            let bits = layout.lock_id_bits().map_or(0, |bits_of| bits_of(&name));
            let lock_id = LockId::generate().with_spare_bits(bits);
            let (shard, space) = layout.of_key(&name);
            prop_assert_eq!(layout.of_lock_id(lock_id).0, shard);
            let names = space.names(&name, lock_id).unwrap();
            let slot = layout.slots()[shard];
            for one in [&names.lock, &names.fence, &names.index] {
                prop_assert_eq!(slot_of(one), slot);
            }
            prop_assert!(space.is_name_of(&names.lock[space.start().len()..], name.as_str()));
        }
    }
}
