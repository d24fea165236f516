//! The slots of a cluster, and the tags over which locks are spread.

use std::sync::LazyLock;

/// The number of slots in every Redis Cluster.
const SLOTS: u16 = 16384;

/// One tag in each sixteenth of the slots. Never change them: locks and fence counters are stored under
/// them, and a lockId contains the number of its tag.
///
/// The distances between them differ a little, so that each master of a cluster of 2, 3, 4, 5, 6, 8 or
/// 16 masters has its share of the keys within a fifth.
pub(crate) const TAGS: [&str; 16] = [
    "05t", "1od", "2mz", "3z0", "41m", "51w", "63i", "7xz", "82u", "9gd", "a4f", "bdz", "c6z",
    "dd4", "eet", "ff0",
];

static TAG_SLOTS: LazyLock<[u16; TAGS.len()]> =
    LazyLock::new(|| TAGS.map(|tag| hash(tag.as_bytes())));

/// Returns the number of the tag for a user's key. It is the tag nearest to the slot of the key itself,
/// so that a master's share of the keys is about its share of the slots.
pub(crate) fn tag_of(key: &str) -> usize {
    let slot = hash(key.as_bytes());
    TAG_SLOTS
        .windows(2)
        .take_while(|pair| pair[1].abs_diff(slot) < pair[0].abs_diff(slot))
        .count()
}

/// Returns the slot of a stored key.
pub(crate) fn slot_of(key: &str) -> u16 {
    hash(hash_tag(key).unwrap_or(key).as_bytes())
}

/// Returns the part of a key that decides its slot. None if the whole key does.
pub(crate) fn hash_tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// CRC-16/XMODEM.
fn hash(bytes: &[u8]) -> u16 {
    let mut crc = 0;
    for byte in bytes {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 };
        }
    }
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // A server answered these to CLUSTER KEYSLOT.
        for (key, slot) in [
            ("123456789", 12739),
            ("foo{hash_tag}", 2515),
            ("somekey", 11058),
            ("foo{}{bar}", 8363),
            ("", 0),
        ] {
            assert_eq!(slot_of(key), slot, "{key}");
        }
        assert_eq!(slot_of("a{b}c"), slot_of("b"));
    }

    #[test]
    fn one_tag_in_each_band_and_its_number_comes_first() {
        for (number, tag) in TAGS.into_iter().enumerate() {
            assert_eq!(usize::from(slot_of(tag) / 1024), number);
            assert!(tag.starts_with(char::from_digit(number as u32, 16).unwrap()));
            assert_eq!(tag.len(), TAGS[0].len());
        }
    }

    #[test]
    fn a_key_goes_to_the_nearest_tag() {
        for number in 0..20_000 {
            let key = format!("orders:{number}");
            let distance = |tag: u16| tag.abs_diff(hash(key.as_bytes()));
            let least = TAG_SLOTS.map(distance).into_iter().min().unwrap();
            assert_eq!(distance(TAG_SLOTS[tag_of(&key)]), least);
        }
    }

    #[test]
    fn keys_stay_with_their_tags() {
        for (key, tag) in [("a", "f"), ("orders:42", "b"), ("é", "a")] {
            assert_eq!(&TAGS[tag_of(key)][..1], tag, "{key}");
        }
    }

    #[test]
    fn masters_have_their_shares() {
        const KEYS: usize = 30_000;
        for masters in [2, 3, 4, 5, 6, 8, 16] {
            let mut shares = vec![0; masters];
            for number in 0..KEYS {
                let slot = usize::from(TAG_SLOTS[tag_of(&format!("user:{number}:cart"))]);
                shares[slot * masters / usize::from(SLOTS)] += 1;
            }
            for share in shares {
                let of_even = (share * masters) as f64 / KEYS as f64;
                assert!((0.8..1.2).contains(&of_even), "{masters}: {of_even}");
            }
        }
    }
}
