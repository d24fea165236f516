//! Maps that every operation uses. Keys come from users, so the hash has a random seed in each process.
//! It is several times cheaper than the standard one.

use std::collections::HashMap;

#[cfg(not(test))]
pub type FastMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Always iterates in the same order, so that a test can be repeated.
#[cfg(test)]
pub type FastMap<K, V> = HashMap<K, V, foldhash::fast::FixedState>;
