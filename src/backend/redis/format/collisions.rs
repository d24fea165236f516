//! Finds the keys that cannot be stored as they are, because their name would be that of an index or
//! of a fence counter, of the same prefix or of a nested one.
//!
//! Two prefixes are nested if one is the other, a colon and more. With `syncguard` and
//! `syncguard:billing` on one server, the key `billing:id:…` of the first prefix would be stored where
//! the second has its indexes. Other prefixes are not known here, so this finds every key that could be
//! an entry of any prefix. All other keys are stored as they are, because other implementations of the
//! format store them so.

use super::keys::{FENCE, INDEX, is_allowed, separator};
use crate::lock::LockId;
use crate::lock::id::LOCK_ID_LENGTH;

/// Returns whether `prefix:key` may be the name of another kind of entry.
pub(super) fn could_meet_another_kind(prefix: &str, key: &str) -> bool {
    is_index(prefix, key) || is_counter(prefix, key)
}

/// Returns whether the key may name an index: `id:…` of this prefix, `nested:id:…` of a prefix that is
/// nested in this one, or, under a prefix that ends with `id`, a lockId of the prefix before that.
fn is_index(prefix: &str, key: &str) -> bool {
    let Some((before, lock_id)) = key
        .len()
        .checked_sub(LOCK_ID_LENGTH)
        .and_then(|start| key.split_at_checked(start))
    else {
        return false;
    };
    let nested = match before.strip_suffix(INDEX) {
        Some("") => return is_lock_id(lock_id),
        Some(nested) => nested.strip_suffix(':'),
        None => {
            let ends_with_id = prefix == "id" || prefix.ends_with(":id");
            return before.is_empty() && ends_with_id && is_lock_id(lock_id);
        }
    };
    nested.is_some_and(can_be_nested) && is_lock_id(lock_id)
}

/// Returns whether the key may name a fence counter: `fence:prefix:…`, or
/// `nested:fence:prefix:nested:…`.
fn is_counter(prefix: &str, key: &str) -> bool {
    // A prefix does not contain `fence:`, so only the first one can follow a prefix.
    let Some((before, counted)) = key.split_once(FENCE) else {
        return false;
    };
    let Some(counted) = counted
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix(separator(prefix)))
    else {
        return false;
    };
    match before.strip_suffix(':') {
        None => before.is_empty(),
        Some(nested) => {
            let counted = counted
                .strip_prefix(nested)
                .and_then(|rest| rest.strip_prefix(':'));
            can_be_nested(nested) && counted.is_some_and(|key| !key.is_empty())
        }
    }
}

/// Returns whether a prefix may consist of another one, a colon, and this.
fn can_be_nested(rest: &str) -> bool {
    !rest.is_empty() && !rest.ends_with(':') && is_allowed(rest)
}

fn is_lock_id(text: &str) -> bool {
    LockId::parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::format::keys::Keyspace;
    use crate::lock::Key;
    use proptest::prelude::*;

    const ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

    #[test]
    fn keys_that_name_another_kind_of_entry() {
        for (prefix, key) in [
            ("syncguard", format!("id:{ID}")),
            ("syncguard", "fence:syncguard:x".to_owned()),
            ("", "fence:x".to_owned()),
            // Entries of a prefix that is nested in this one.
            ("syncguard", format!("billing:id:{ID}")),
            ("syncguard", format!("a:b:id:{ID}")),
            ("syncguard", format!(":a:id:{ID}")),
            ("", format!("billing:id:{ID}")),
            (
                "syncguard",
                "billing:fence:syncguard:billing:payout".to_owned(),
            ),
            ("syncguard", "a:b:fence:syncguard:a:b:c".to_owned()),
            ("", "a:fence:a:x".to_owned()),
            ("é", "ü:fence:é:ü:x".to_owned()),
            // Entries in a cluster, of a prefix that contains the tag.
            ("app:{bdz}", format!("x:id:{ID}")),
            ("app:{bdz}", "x:fence:app:{bdz}:x:y".to_owned()),
            // Entries of a prefix in which this one is nested.
            ("syncguard:id", ID.to_owned()),
            ("id", ID.to_owned()),
        ] {
            assert!(could_meet_another_kind(prefix, &key), "{prefix} {key}");
        }
    }

    #[test]
    fn keys_that_meet_nothing_else() {
        for (prefix, key) in [
            ("syncguard", "billing:x".to_owned()),
            ("syncguard", ID.to_owned()),
            ("syncguard", format!("x{ID}")),
            ("syncguard", "id:42".to_owned()),
            ("syncguard", "billing:id:42".to_owned()),
            ("syncguard", format!("billing:id:{ID}x")),
            ("syncguard", format!("billing:id:{ID}:x")),
            ("syncguard", format!("billing:grid:{ID}")),
            ("syncguard", format!("grid:{ID}")),
            ("syncguard", format!("ü:id:é{}", &ID[2..21])),
            ("syncguard:grid", ID.to_owned()),
            ("syncguard:id", format!("x:{ID}")),
            ("syncguard", "fence:north".to_owned()),
            ("syncguard", "billing:fence:north".to_owned()),
            ("syncguard", "orders:fence:orders:42".to_owned()),
            ("syncguard", "billing:fence:syncguard:other:x".to_owned()),
            ("syncguard", "billing:fence:syncguard:billing".to_owned()),
            ("syncguard", "billing:fence:syncguard:billing:".to_owned()),
            ("syncguard", "billingfence:syncguard:billing:x".to_owned()),
            // No prefix ends with a colon or contains `fence`.
            ("syncguard", format!("::id:{ID}")),
            ("syncguard", "a::fence:syncguard:a::x".to_owned()),
            ("syncguard", format!("a:fence:id:{ID}")),
            (
                "syncguard",
                "xfence:fence:syncguard:xfence:fence:x".to_owned(),
            ),
        ] {
            assert!(!could_meet_another_kind(prefix, &key), "{prefix} {key}");
        }
    }

    fn lock_key(space: &Keyspace, key: &str) -> String {
        space.lock_key(&Key::new(key).unwrap()).unwrap()
    }

    /// Returns whether this is the name of an index or a fence counter of this prefix.
    fn is_other_kind(space: &Keyspace, prefix: &str, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(space.start()) else {
            return false;
        };
        let counters = format!("{FENCE}{prefix}{}", separator(prefix));
        rest.strip_prefix(INDEX).is_some_and(is_lock_id)
            || rest
                .strip_prefix(&counters)
                .is_some_and(|key| !key.is_empty())
    }

    /// A part of a key of nested prefixes.
    const PART: &str = "(fence|id|a|b|é|syncguard|\\{t\\}||[a-zA-Z0-9_-]{22})";

    proptest! {
        #[test]
        fn no_key_is_an_entry_of_another_kind_under_nested_prefixes(
            shorter in "(syncguard|\\{t\\}|a|a:b|id|é|)",
            nested in "(a|b|id|a:id|é:b|\\{t\\}|syncguard)",
            outer in "(outer:)?",
            parts in proptest::collection::vec(PART, 1..7),
            lock_id in "[a-zA-Z0-9_-]{22}",
            form in 0..5,
        ) {
            let longer = format!("{shorter}{}{nested}", separator(&shorter));
            let parts = parts.join(":");
            let key = match form {
                0 => parts,
                1 => lock_id,
                2 => format!("{nested}:{INDEX}{lock_id}"),
                3 => format!("{parts}:{INDEX}{lock_id}"),
                _ => format!("{nested}:{FENCE}{longer}:{parts}"),
            };
            let Ok(_) = Key::new(&key) else { return Ok(()) };
            let spaces = [&shorter, &longer].map(|prefix| Keyspace::new(prefix, &outer).unwrap());
            for (prefix, space) in [&shorter, &longer].into_iter().zip(&spaces) {
                let name = lock_key(space, &key);
                let is_plain = name == format!("{}{key}", space.start());
                for (other, other_space) in [&shorter, &longer].into_iter().zip(&spaces) {
                    // A hash may look like a lockId under a prefix that ends with `id`, but nobody can
                    // choose a key so that it equals one.
                    if is_plain || prefix == other {
                        prop_assert!(
                            !is_other_kind(other_space, other, &name),
                            "{name} under {prefix:?} for {other:?}"
                        );
                    }
                }
                prop_assert_eq!(is_plain, !could_meet_another_kind(prefix, &key));
            }
        }
    }
}
